"""A forecast run: attentions beside each other."""
