"""The EHRSHOT experiment: one encoder for every attention, alike in all else."""
