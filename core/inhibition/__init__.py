"""The inhibition lab: small decoders that differ in their attention alone, trained to look up facts
in synthetic records and measured by where the fact stands.

Records are sequences of whole words of a vocabulary of their own (:mod:`.records`), so that lookup
appears within minutes on one core. The decoder is Qwen2's (:mod:`.decoder`).
"""
