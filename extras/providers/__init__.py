"""Readers and judges by any model provider of Inspect AI."""
