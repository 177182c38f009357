"""Text as vectors: the MiniLM encoder, and embeddings that are made once ever.

Importing this loads no model library; an :class:`Embedder` loads one only when it meets a text
whose vector is not on disk.
"""
