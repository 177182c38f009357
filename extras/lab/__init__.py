"""The generator of synthetic patients, and runs of kind ``inhibition``."""
