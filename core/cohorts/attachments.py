"""Text of embedded files: plain text, HTML and RTF in base64, or why a file is not read."""

from __future__ import annotations

import base64
import binascii
import re

from midchart.core.parsing import character_set, valid_unicode
from midchart.core.text.markup import html_text


def base64_text(data: str, media_type: str) -> tuple[str, str]:
    """Text of a file in base64, or "" and the reason why it has none that can be read.

    ``media_type``: its MIME type with parameters, as ``text/plain; charset=utf-8``; "" is text.
    """
    if not data.strip():
        return "", "holds no data"
    kind, _, parameters = media_type.lower().partition(";")
    kind = kind.strip()
    readable = kind in ("", "application/rtf", "application/xhtml+xml", "application/xml")
    if not readable and not kind.startswith("text/"):
        return "", f"is {kind}, which is not read — export it as text, HTML or RTF"
    try:
        raw = base64.b64decode(data, validate=False)
    except (binascii.Error, ValueError):
        return "", "is not base64"
    stated = re.search(r"charset=[\"']?([\w.:-]+)", parameters)
    charset = character_set(stated[1]) if stated else "utf-8-sig"
    if not charset:
        return "", "names a charset that is not known — export it as UTF-8"
    try:
        text = raw.decode(charset)
    except UnicodeDecodeError:
        text = raw.decode("cp1252", "replace")
    return plain_text(text, kind)


def plain_text(text: str, kind: str) -> tuple[str, str]:
    """The text of decoded content of a MIME type as valid Unicode, markup removed; "" and why where
    it has none."""
    if kind.endswith("rtf"):
        from striprtf.striprtf import rtf_to_text

        try:
            text = rtf_to_text(text, errors="ignore")
        except (LookupError, OverflowError, TypeError, ValueError):
            return "", "is RTF with a character or charset that is none — export it as text"
    elif kind in ("text/html", "application/xhtml+xml") or text.lstrip()[:9].lower() == "<!doctype":
        text = html_text(text)
    text = valid_unicode(text.replace("\r\n", "\n").replace("\x00", ""))
    return (text, "") if text.strip() else ("", "holds no text")
