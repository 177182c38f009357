"""The position curve: how often answers are right by where in the record the evidence lies, what
that curve would look like if position meant nothing, and what may be said of it in words.
"""

from __future__ import annotations
