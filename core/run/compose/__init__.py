"""A spec before it starts: presets, what it will do and cost, what is missing."""
