"""Reading with a language model on this machine: weights, batches, cache, decoding.

The files here import torch and transformers; the readers beside this folder import them when the
first prompt is read, never before.
"""
