"""FHIR R4 resources: read from files, indexed by patient, and written as events."""
