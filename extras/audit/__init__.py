"""Audits of other systems: where they lost the evidence, read back from their logs.

Commands ``audit``, ``cards`` and ``import-results``; kinds of run ``audit``, ``order_and_filler``
and ``other_results``; files for other tools (``export --to``); and parts of pages Data, Patient,
Results and Review.
"""
