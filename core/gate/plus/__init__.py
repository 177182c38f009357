"""QCCS plus: a gate that joins BM25, MiniLM and learned similarity of words.

It starts as the reciprocal rank fusion of BM25 and MiniLM (the arm hybrid), learns a vector for
every word from its character n-grams, and scores for each word of the question how near the nearest
word of a sentence is (late interaction: Khattab and Zaharia 2020, ColBERT, section 3.3). It is
trained to rank a question's true evidence above everything else in the record. The score is a sum
of six features with learned weights.
"""
