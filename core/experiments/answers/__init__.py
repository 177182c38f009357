"""The experiment of kind ``answers``."""
