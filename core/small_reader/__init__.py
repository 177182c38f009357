"""The small reader: a Qwen2 model of 4.7 million weights, trained from scratch.

It learns to quote the answering line from :mod:`midchart.core.synthetic.training_examples` and is
saved in the format of the Hugging Face hub, so that the code for Qwen2.5 runs it.
"""
