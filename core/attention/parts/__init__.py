"""What the attentions share: the base, masked maps, what H2O keeps, the gate of event codes."""
