"""Cohorts and models: what is here and what is missing."""
