"""A finished run as one file: packed, opened elsewhere, repeated, told as a page of HTML."""
