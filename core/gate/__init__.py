"""The QCCS gate: a small learned scorer of sentences for a question, from character n-grams.

Paper, QCCS; PROTOCOL, The QCCS gate. Scoring (:mod:`core.gate.scorer`) needs arrays alone;
training (:mod:`core.gate.trainer`) loads torch.
"""
