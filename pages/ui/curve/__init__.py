"""The position-accuracy curve, its groups and points, and needle runs."""
