"""The paper's tables compared with this installation's, and its faults removed one at a time."""
