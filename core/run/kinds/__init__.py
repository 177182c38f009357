"""Kinds of run, one file each; :data:`core.run.kind.KINDS` scans this folder."""
