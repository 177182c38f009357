"""What a C-CDA document, an HL7 v2 message or any other payload says, whatever file holds it."""
