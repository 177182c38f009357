"""The experiment of kind ``selection``."""
