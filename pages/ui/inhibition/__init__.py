"""An inhibition run: small decoders with different attentions, read at every depth."""
