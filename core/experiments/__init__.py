"""Experiments, one folder each; :data:`core.runs.experiment.EXPERIMENTS` scans this folder."""
