"""Experiments on the logs of other systems: their scores, and an audit against the charts."""
