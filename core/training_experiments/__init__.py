"""Experiments whose work items are models that they train; one folder each."""
