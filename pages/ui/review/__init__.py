"""A person judges answers, blind to arm, reader and judge; and how far judges agree with people."""
