"""Serving others: people who sign in, their roles, and what they may name."""
