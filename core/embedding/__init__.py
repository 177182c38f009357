"""Text as vectors: sentence encoders, and vectors that are computed once."""
