"""Experiments on records and questions: a file or a folder for each kind of run."""
