"""A gate run, and the gates in use."""
