"""The QCCS gate: a small learned scorer of sentences for a question, from character n-grams.

Paper, QCCS; docs/methods.md, The QCCS gate. Scoring (:mod:`core.gate.scoring`) needs arrays alone;
training (:mod:`core.gate.training`) loads torch.
"""
