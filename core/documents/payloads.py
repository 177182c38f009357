"""Text of a payload inside of another source: an attachment, a cell of a table, a document's body.

One dispatch by what the content is, whatever its stated type: C-CDA, FHIR in JSON or XML, RTF,
HTML, PDF with a text layer, plain text; in base64 or not.
"""

from __future__ import annotations

import base64
import binascii
import html
import io
import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from midchart.core.cohorts.records import Entry
from midchart.core.documents.ccda_sections import CLINICAL_DOCUMENT, documents_in, text_of_document
from midchart.core.documents.hl7v2_segments import Hl7Message, messages_of
from midchart.core.errors import DataError
from midchart.core.fhir.events import ResourceReader
from midchart.core.fhir.files import NAMESPACE, members, read_xml_document
from midchart.core.fhir.values import clean
from midchart.core.parsing import (
    UTF_16,
    character_set,
    parse_xml,
    read_json,
    valid_unicode,
    xml_text,
)
from midchart.core.storage.encodings import decoded
from midchart.core.text.markup import html_text, markup_text

_CHARSET = re.compile(r"charset=[\"']?([\w.:-]+)")
_BASE64 = re.compile(r"(?:data:([\w/.+-]*)[^,]{0,80};base64,)?([A-Za-z0-9+/\s]{40,}={0,2})\s*\Z")
_ENTITY = re.compile(r"&(?:nbsp|lt|gt|amp|quot|#\d{2,5});")
_MESSAGE = re.compile(r"MSH\|[^|]{4,5}\|")
_FHIR = re.compile(r'\s*[\[{].*"resourceType"', re.DOTALL)
_HTML = re.compile(
    r"\s*<(?:!doctype\s+html|html|head|body|div|p|table|span|h[1-6]|b|ul|ol|pre|font|center)\b[^<>]*>"
    r"|</(?:p|div|b|i|u|strong|em|table|tr|td|li|ul|ol|span|body|html|h[1-6]|font)>|<br\s*/?>",
    re.IGNORECASE,
)
_READABLE = ("", "application/rtf", "application/xhtml+xml", "application/xml", "application/pdf",
             "application/json", "application/fhir+json", "application/octet-stream",
             "application/hl7-sda+xml", "application/cda+xml")  # fmt: skip


def payload_text(content: str | bytes, media_type: str = "") -> tuple[str, str]:
    """The text of a payload, or "" and the reason why it has none that can be read.

    ``media_type``: its MIME type with parameters, as ``text/plain; charset=utf-8``, and ``;base64``
    where it is encoded so; "" is text.
    """
    kind, _, parameters = media_type.lower().partition(";")
    kind = kind.strip()
    if not content.strip():
        return "", "holds no data"
    if "base64" in parameters and isinstance(content, str):
        try:
            content = base64.b64decode(content, validate=False)
        except (binascii.Error, ValueError):
            return "", "is not base64"
    readable = kind in _READABLE or kind.startswith("text/") or kind.endswith(("+xml", "+json"))
    if isinstance(content, bytes) and b"%PDF-" in content[:1024]:
        text, problem = _pdf_text(content)
    elif not readable:
        return "", f"is {kind}, which is not read — export it as text, HTML, RTF or PDF"
    else:
        text, problem = _decoded(content, parameters)
        if not problem:
            text, problem = _text_of(text, kind)
    text = valid_unicode(text.replace("\r\n", "\n").replace("\x00", ""))
    return (text, "") if text.strip() else ("", problem or "holds no text")


def cell_text(text: str) -> tuple[str, str]:
    """The text of a cell, whose markup or encoding is no content; "" and why where a document in it
    cannot be read."""
    encoded = _BASE64.match(text) if len(text) >= 40 else None
    if encoded is not None:
        try:
            raw = base64.b64decode("".join(encoded[2].split()), validate=True)
        except (binascii.Error, ValueError):
            return text, ""
        if encoded[1] is None and not _is_text_or_document(raw):
            return text, ""
        return payload_text(raw, encoded[1] or "application/octet-stream")
    head = text[:200].lstrip("\ufeff \t\r\n")
    if (
        head[:1] not in ("{", "<", "[")
        and not _MESSAGE.match(head)
        and "</" not in text
        and "<br" not in text.lower()
    ):
        return html.unescape(text).replace("\xa0", " ") if _ENTITY.search(text) else text, ""
    return payload_text(text)


def cell_shown(text: str) -> str:
    """:func:`cell_text`, or a statement of why it is not read."""
    read, problem = cell_text(text)
    return read or (f"not read: the text {problem}" if problem else "")


def _is_text_or_document(raw: bytes) -> bool:
    if raw.lstrip()[:5] in (b"%PDF-", b"{\\rtf"):
        return True
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return " " in text.strip() and all(c.isprintable() or c.isspace() for c in text[:1000])


def _decoded(content: str | bytes, parameters: str) -> tuple[str, str]:
    """The characters of a payload by its byte-order mark, its declaration or its type."""
    if isinstance(content, str):
        return content, ""
    stated = _CHARSET.search(parameters)
    charset = character_set(stated[1]) if stated else ""
    if stated and not charset:
        return "", "names a charset that is not known — export it as UTF-8"
    with suppress(UnicodeDecodeError):
        if charset and not content.startswith(UTF_16):
            return content.decode(charset), ""
    try:
        is_xml = content.lstrip()[:5] == b"<?xml"
        return xml_text(content, "it") if is_xml else decoded(content, "it")[0], ""
    except DataError as error:
        return "", error.reason


def _text_of(text: str, kind: str) -> tuple[str, str]:
    """The text of a payload's characters by what they are."""
    head = text.lstrip("\ufeff \t\r\n")[: 1 << 16]
    if head.startswith("{\\rtf") or kind.endswith("rtf"):
        return _rtf_text(text)
    if _MESSAGE.match(head):
        return _messages_text(text)
    if head.startswith("<") and CLINICAL_DOCUMENT.search(head):
        return _document_text(text.lstrip("\ufeff \t\r\n"))
    if _FHIR.match(head) or (head.startswith("<") and f'"{NAMESPACE}"' in head):
        return _resources_text(text)
    if kind in ("text/html", "application/xhtml+xml") or _HTML.search(head):
        return html_text(re.sub(r"\A\s*<\?xml[^>]*\?>", "", text)), ""
    if head.startswith("<?xml") or (kind.endswith("xml") and head.startswith("<")):
        try:
            return markup_text(parse_xml(text.lstrip("\ufeff \t\r\n"), "it")), ""
        except DataError as error:
            return "", error.reason
    return text, ""


def _messages_text(text: str) -> tuple[str, str]:
    """The entries of HL7 v2 messages, one a line."""
    import hl7

    try:
        messages = [Hl7Message(one, payload_text, cell_text) for one in messages_of(text)]
        entries = [entry for message in messages for entry in message.entries()]
    except (hl7.HL7Exception, LookupError, TypeError, ValueError, AttributeError):
        return "", "does not follow HL7 v2"
    return "\n".join(map(_line, entries)), "holds HL7 v2 messages that state nothing that is read"


_RTF = re.compile(r"[{}]|\\([a-z]+)(-?\d+)? ?|\\'[0-9a-f]{2}|\\[^a-z]|[^\\{}]+", re.IGNORECASE)
_RTF_HIDDEN = frozenset(("v", "strike", "striked", "deleted"))


def _visible_rtf(text: str) -> str:
    """RTF without hidden and deleted text, its footnotes in brackets in the text."""
    written: list[str] = []
    around: list[tuple[frozenset[str], str]] = []
    hidden, ending = frozenset[str](), "}"
    for match in _RTF.finditer(text):
        part, word = match[0], match[1]
        if part == "{":
            around.append((hidden, ending))
            ending = "}"
        elif part == "}":
            part = ending
            hidden, ending = around.pop() if around else (hidden, "}")
        elif word in _RTF_HIDDEN:
            hidden = hidden - {word} if match[2] == "0" else hidden | {word}
        elif word in ("footnote", "annotation"):
            part, ending = " (", ")}"
        if not hidden or part[-1:] in ("{", "}"):
            written.append(part)
    return "".join(written)


def _rtf_text(text: str) -> tuple[str, str]:
    from striprtf.striprtf import rtf_to_text

    try:
        plain = rtf_to_text(_visible_rtf(text), errors="ignore").strip()
        return re.sub(r"\|$", "", plain, flags=re.MULTILINE).replace("|", " | "), ""
    except (LookupError, OverflowError, TypeError, ValueError):
        return "", "is RTF with a character or charset that is none — export it as text"


def _document_text(text: str) -> tuple[str, str]:
    try:
        root = parse_xml(re.sub(r"\A<\?xml[^>]*\?>", "", text), "it")
    except DataError as error:
        return "", f"is a C-CDA document that {error.reason}"
    documents = [text_of_document(one, payload_text) for one in documents_in(root)]
    return "\n".join(filter(None, documents)), "is a C-CDA document without text"


def _resources_text(text: str) -> tuple[str, str]:
    try:
        is_xml = text.lstrip("\ufeff \t\r\n").startswith("<")
        parse = read_xml_document if is_xml else partial(read_json, as_written=True)
        document = parse(text, "it")
    except DataError as error:
        return "", f"names FHIR and {error.reason}"
    lines: list[str] = []
    inside = [one.resource for one in members(document)]
    named = {
        link: one
        for member in members(document)
        if (one := member.resource)
        for link in (member.url, f"{one.get('resourceType')}/{one.get('id')}")
        if link
    }

    reader = ResourceReader(named.get, payload_text)
    for resource in filter(None, inside):
        lines += _entry_lines(reader, resource)
    return "\n".join(lines), "holds FHIR resources that state nothing that is read"


def _entry_lines(reader: ResourceReader, resource: object) -> Iterator[str]:
    try:
        entries = reader.entries(resource)  # pyright: ignore[reportArgumentType]
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        kind = clean(resource.get("resourceType")) if isinstance(resource, dict) else "it"
        yield f"{kind} does not follow FHIR R4"
        return
    yield from map(_line, entries)


def _line(one: Entry) -> str:
    """An entry in a line, with its date and name."""
    time, _, _, name, text, unit, *_ = one
    dated = f"{time:%Y-%m-%d} " if time else ""
    return f"{dated}{name}: {text} {unit}".rstrip() if name else f"{dated}{text}"


def _pdf_text(content: bytes) -> tuple[str, str]:
    """The text layer of a PDF, page by page, and the fields of its form."""
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        reader = PdfReader(io.BytesIO(content))
        texts = [page.extract_text() for page in reader.pages]
        filled = {name: one.get("/V") for name, one in (reader.get_fields() or {}).items()}
        texts += [f"{name}: {str(value).lstrip('/')}" for name, value in filled.items() if value]
    except (PyPdfError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
            ValueError, OSError):  # fmt: skip
        return "", "is a PDF that is damaged or encrypted — export it as text"
    text = "\n".join(filter(None, (one.strip() for one in texts)))
    return text, "is a PDF without a text layer — recognise its text first"
