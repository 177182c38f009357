"""The QCCS gate: a small learned scorer of sentences for a question, from character n-grams.

Paper, QCCS; docs/methods.md, The QCCS gate. Scoring (:mod:`midchart.core.gate.scoring`) needs
arrays alone; training (:mod:`midchart.core.gate.training`) loads torch.
"""
