"""QCCS plus: a gate of the paper gate's size that compares question and sentence word by word.

The paper's gate pools question and sentence before it compares them, and is trained on shared
words. This one keeps BM25 as its ground, learns a vector for every word from its character
n-grams, and asks of each word of the question how near the nearest word of a sentence is (late
interaction: Khattab and Zaharia 2020, ColBERT, section 3.3); it is trained to rank the true
evidence of a question above everything else in the record. Eleven features, summed with learned
weights: every part of a score can be shown.
"""
