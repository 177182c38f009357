"""Arms beside each other: from all of them down to one question."""
