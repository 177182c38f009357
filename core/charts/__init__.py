"""Charts converted once: what a cohort's files hold, and what is computed of it, as arrays."""
