"""Models on a server of their own: the connection, and how long a text is in their tokens."""
