"""The paper beside this installation: its tables, and its faults taken away one at a time."""
