"""The segments of an HL7 version 2 message as entries of a chart.

An OBX of a value is a measurement, those of text a note, NTE a remark on what is before it.
Segments of administration are counted by name, those of other kinds shown as they are written.
Fields are those of HL7 2.3 to 2.8.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import hl7

from midchart.core.cohorts.identity import Demographics, Key
from midchart.core.cohorts.records import (
    Entry,
    entry,
)
from midchart.core.cohorts.status import Status, classify, stated
from midchart.core.documents.ccda_entries import parse_ts
from midchart.core.fhir.events import Payload

_MESSAGE = re.compile(r"(?:^|(?<=\r))[\x0b\s]*(?=MSH[^\w\s])")
_VOCABULARIES = {"LN": "LOINC", "SCT": "SNOMED", "I10": "ICD10", "I9": "ICD9", "CVX": "CVX"}
_CLASSES = {"I": "inpatient", "O": "outpatient", "E": "emergency", "P": "pre-admission",
            "R": "recurring patient", "B": "obstetrics"}  # fmt: skip
_RESULTS = {"W": "entered-in-error", "D": "deleted", "P": "preliminary", "S": "partial",
            "X": "not-done", "I": "registered"}  # fmt: skip
_CONTROLS = {"DC": "discontinued", "OD": "discontinued", "HD": "on hold"}
_CANCELLED = {"CA": "cancelled", "OC": "cancelled", "CR": "cancelled", "OB": "obsolete"}
_ADMINISTRATIVE = re.compile(
    r"MSH|EVN|PD1|NK1|GT1|IN\d|ROL|FT1|[FB]HS|[FB]TS|MSA|SFT|UB\d|ACC|CTI|RGS|AI\w|DSC|QR[DF]|ERR"
)
"""Segments of messages, insurance, next of kin and schedules."""


_Parts = tuple[tuple[str, int, int, Mapping[str, str]], ...]
"""Label ("+" of what continues the part before it), field, component and meanings of codes."""


@dataclass(frozen=True, slots=True)
class _SegmentForm:
    """How a segment becomes an entry: fields of its code and its times; ``parts``: what its text
    says; ``status``: field of its state and its meanings;
    ``name``: a field that names it where the code does not."""

    kind: str
    code: int
    times: tuple[int, ...] = ()
    parts: _Parts = ()
    status: tuple[int, Mapping[str, str]] = (0, {})
    name: int = 0
    prefix: str = ""


_DIAGNOSES = {"A": "admitting diagnosis", "W": "working diagnosis", "F": "final diagnosis"}
_ALLERGY = _SegmentForm(
    "observation", 3, (6,),
    (("", 4, 1, {"SV": "severe", "MO": "moderate", "MI": "mild"}), ("reaction:", 5, 1, {})),
    prefix="Allergy to ",
)  # fmt: skip
_FORMS = {
    "DG1": _SegmentForm("condition", 3, (5,), (("", 6, 1, _DIAGNOSES), ("", 4, 1, {})), name=4),
    "PR1": _SegmentForm("procedure", 3, (5,), (("", 4, 1, {}),), name=4),
    "SPM": _SegmentForm("specimen", 4, (17,), (("site:", 8, 2, {}),)),
    "AL1": _ALLERGY,
    "IAM": replace(_ALLERGY, times=(11,), status=(6, {"D": "deleted"})),
    "RXA": _SegmentForm(
        "drug_exposure", 5, (3,),
        (("dose", 6, 1, {"999": "", "0": ""}), ("+", 7, 1, {}), ("because", 18, 2, {}),
         ("", 9, 2, {}), ("lot", 15, 1, {})),
        (20, {"RE": "declined", "NA": "not-done", "PA": "partial"}),
    ),
    "RXE": _SegmentForm(
        "drug_exposure", 2, (1,),
        (("ordered: dose", 3, 1, {}), ("+", 5, 1, {}), *(("", n, 2, {}) for n in (1, 6, 7, 21))),
    ),
    "RXO": _SegmentForm(
        "drug_exposure", 1, (),
        (("ordered: dose", 2, 1, {}), ("+", 4, 1, {}), *(("", n, 2, {}) for n in (5, 6, 7))),
    ),
}  # fmt: skip

_REMARKS: Mapping[str, _Parts] = {
    "RXR": (("route", 1, 2, {}), ("site", 2, 2, {})),
    "RXC": (("with", 2, 2, {}), ("+", 3, 1, {}), ("+", 4, 2, {})),
    "PV2": (("reason", 3, 2, {}),),
    "TQ1": (("", 3, 1, {}), ("+", 6, 1, {}), ("", 10, 1, {}), ("", 11, 1, {})),
}
"""Segments that say more of the order that they follow, else of the entry before them."""

CellReader = Callable[[str], tuple[str, str]]
"""The text of a cell → its text without markup, or "" and why it has none."""
Segment = Any
"""A segment of the library ``hl7``."""


def messages_of(text: str) -> list[str]:
    lines = re.sub(r"\r?\n", "\r", text.lstrip("\ufeff")).replace("\x1c", "")
    return [one.strip("\x0b\r ") for one in _MESSAGE.split(lines) if one.strip().startswith("MSH")]


class Hl7Message:
    """A message as entries: the patient's key and demographics, and what each segment says."""

    def __init__(self, text: str, read: Payload, read_cell: CellReader) -> None:
        self._read, self._read_cell = read, read_cell
        self._parsed: Any = hl7.parse(text + "\r")
        self._separators = self._parsed.separators
        mark = re.escape(self._parsed.esc)
        self._escape = re.compile(f"{mark}(\\.[a-z]{{2}}[-+\\d]*|[A-Z][0-9A-F]*){mark}")
        self.left_out: Counter[str] = Counter()
        self.segments = len(self._parsed)
        self.problems: list[str] = []
        self._entries: list[dict[str, Any]] = []
        self._time = self._stamp(self._parsed[0], 7)
        self._order: dict[str, Any] = {}
        self._visit = self._document = self._author = self._after = ""

    def part(self, segment: Segment, field: int, component: int = 1) -> str:
        """A component of a field's first repetition, its escape sequences undone; "" for none."""
        try:
            text = segment.extract_field(1, field, 1, component, 1)
        except LookupError:
            return ""
        return "" if text == '""' else self._unescaped(text)

    def _unescaped(self, text: str) -> str:
        """A text with its escape sequences undone; what is none stays as it is written."""
        return self._escape.sub(self._meaning, text).strip()

    def _meaning(self, escape: re.Match[str]) -> str:
        code = escape[1]
        if code[0] == ".":
            return "\n" if code[:3] in (".br", ".sp", ".ce") else " "
        if code[0] == "X" and len(code) % 2 and code != "X":
            return bytes.fromhex(code[1:]).decode("latin-1").replace("\r", "\n")
        marks = zip("FRSTE", (*self._separators[1:], self._parsed.esc), strict=False)
        return {"H": "", "N": "", **dict(marks)}.get(code, escape[0])

    def _repetitions(self, segment: Segment, field: int) -> Iterator[list[str]]:
        """The components of each repetition of a field."""
        try:
            held = segment[field]
        except (IndexError, LookupError):
            return
        for repetition in held if isinstance(held, hl7.Field) else [held]:
            if (written := str(repetition)) and written != '""':
                yield [*map(self._unescaped, written.split(self._separators[3]))]

    def _text(self, segment: Segment, field: int, component: int) -> str:
        """A component, of a plain text the text, of each repetition of a field."""
        held = (one if one[1:] else one * component for one in self._repetitions(segment, field))
        texts = (text for one in held for text in one[component - 1 : component])
        return ", ".join(filter(None, texts))

    def _stamp(self, segment: Segment, *fields: int) -> datetime | None:
        stamps = (parse_ts(self.part(segment, field))[0] for field in fields)
        return next(filter(None, stamps), None)

    def _coded(self, segment: Segment, field: int) -> tuple[str, str]:
        """Code with its vocabulary, and text, of a coded field; its alternative where the first
        has no text."""
        one, two = ([self.part(segment, field, at + n) for n in (1, 2, 3)] for at in (0, 3))
        code, text, system = one if one[1] or not two[1] else two
        vocabulary = _VOCABULARIES.get(system, system)
        return (f"{vocabulary}/{code}" if vocabulary and code else code), text or code

    def patient(self, name: str) -> tuple[Key, Demographics] | None:
        """Authority and number of the patient, and demographics; None for a message of nobody."""
        pid = next((one for one in self._parsed if str(one[0]) == "PID"), None)
        if pid is None:
            return None
        number = self.part(pid, 3) or self.part(pid, 2) or self.part(pid, 18)
        person = Demographics(self.part(pid, 5), parse_ts(self.part(pid, 7))[1], self.part(pid, 8))
        return (self.part(pid, 3, 4), number) if number else ("", name), person

    def entries(self) -> list[Entry]:
        """What the message says, in its order."""
        for segment in self._parsed:
            kind = str(segment[0])[:3]
            read: Callable[[Segment], None] | None = getattr(self, f"_{kind.lower()}", None)
            if kind in _FORMS:
                self._by_form(segment, _FORMS[kind])
            elif kind in _REMARKS:
                self._remark(*self._lines(segment, _REMARKS[kind]))
            elif read is not None:
                read(segment)
            elif _ADMINISTRATIVE.fullmatch(kind):
                self.left_out[f"{kind}: administration"] += 1
            else:  # one that a system adds
                held = (one for n in range(2, 99) for one in self._repetitions(segment, n))
                if any(texts := [" ".join(filter(None, one)) for one in held]):
                    self._add(segment, "note", None, "", f"Segment {kind}", *texts)
            self._after = kind if kind != "NTE" else self._after
        return [entry(**self._fields(one)) for one in self._entries if self._holds(one)]

    def _holds(self, one: dict[str, Any]) -> bool:
        status, words = classify(one["codes"])
        if status is Status.RETRACTED:
            self.left_out[f"{one['segment']}: {words}"] += 1
        return status is not Status.RETRACTED

    def _fields(self, one: Mapping[str, Any]) -> dict[str, Any]:
        text = "\n".join(one["lines"]) if one["kind"] == "note" else " ".join(
            "; ".join(filter(None, (*one["lines"], *one["remarks"]))).split()
        )  # fmt: skip
        if one["kind"] == "note":
            text, problem = self._read_cell("\n".join(filter(None, (text, *one["remarks"]))))
            text = text or f"not read: the text {problem}"
        words = classify(one["codes"])[1]
        fields = ("kind", "code", "name", "unit", "note_id", "author")
        return {name: one[name] for name in fields if name in one} | {
            "time": one["time"] or self._time,
            "text": stated(words, text) or "recorded",
            "visit_id": self._visit,
        }

    def _add(self, segment: Segment, kind: str, time: datetime | None, code: str, name: str,
             *lines: str, codes: tuple[str, ...] = (), **more: str) -> None:  # fmt: skip
        codes = (*codes, _CANCELLED.get(self._order.get("control", ""), ""))
        self._entries.append({
            "segment": str(segment[0]), "kind": kind, "time": time, "code": code, "name": name,
            "lines": [line for line in lines if line], "codes": codes, "remarks": [], **more,
        })  # fmt: skip

    def _by_form(self, segment: Segment, form: _SegmentForm) -> None:
        code, name = self._coded(segment, form.code)
        name = name or self.part(segment, form.name)
        lines = [one for one in self._lines(segment, form.parts) if one != name]
        at, states = form.status
        state = states.get(self.part(segment, at), "") if at else ""
        name, time = form.prefix + name, self._stamp(segment, *form.times)
        ordered = self._order.get("words", ()) if form.code < 3 else ()
        self._add(segment, form.kind, time, code, name, *lines, *ordered, codes=(state,))

    def _lines(self, segment: Segment, parts: _Parts) -> list[str]:
        """What parts of a segment say."""
        lines: list[str] = []
        for label, field, component, means in parts:
            text = self._text(segment, field, component)
            text = means.get(text, text)
            if text and label == "+":
                lines[-1:] = [" ".join((*lines[-1:], text))]
            elif text:
                lines.append(f"{label} {text}".strip())
        return lines

    def _remark(self, *texts: str) -> None:
        if self._after == "ORC":
            self._order["words"] += texts
        elif self._entries:
            self._entries[-1]["remarks"] += texts

    def _pid(self, segment: Segment) -> None:
        died = self._stamp(segment, 29)
        if died or self.part(segment, 30) == "Y":
            self._add(segment, "death", died, "", "Death")

    def _orc(self, segment: Segment) -> None:
        control = self.part(segment, 1)
        words = [_CONTROLS.get(control, ""), self._text(segment, 16, 2)]
        self._order = {"control": control, "words": words}
        self.left_out["ORC: administration"] += 1

    def _pv1(self, segment: Segment) -> None:
        self._visit = self.part(segment, 19)
        kind = self.part(segment, 2)
        start, end = self._stamp(segment, 44), parse_ts(self.part(segment, 45))[1]
        service = self.part(segment, 10)
        name = f"Visit ({_CLASSES.get(kind, kind) or 'class not stated'})"
        ended = f"discharged {end} {self._text(segment, 36, 2)}".strip() if end else ""
        if kind or start or service:
            self._add(segment, "visit", start, "", name, service, ended)

    def _obr(self, segment: Segment) -> None:
        code, name = self._coded(segment, 4)
        time = self._stamp(segment, 7, 22, 6)
        self._order |= {"code": code, "name": name, "time": time, "specimen": ""}
        held = (part for one in self._repetitions(segment, 15) for part in one if part)
        specimen = " ".join(held).replace(self._separators[4], " ")
        of = (self._text(segment, 31, 2), self.part(segment, 13), specimen)
        reason = ", ".join(filter(None, of))
        status = self.part(segment, 25)
        if reason or status in ("X", "I", "O", "S"):
            words = {"X": "cancelled, no result", "O": "ordered"}.get(status, "")
            self._add(segment, "procedure", time, code, name, words, reason)

    def _obx(self, segment: Segment) -> None:
        kind, (code, name) = self.part(segment, 2), self._coded(segment, 3)
        time = self._stamp(segment, 14) or self._order.get("time")
        status = self.part(segment, 11)
        if kind == "ED":
            media = "/".join(filter(None, (self.part(segment, 5, 2), self.part(segment, 5, 3))))
            media = media if "/" in media and not media.startswith("TEXT") else ""
            encoded = ";base64" if self.part(segment, 5, 4).lower() == "base64" else ""
            text, problem = self._read(self.part(segment, 5, 5), media.lower() + encoded)
            self.problems += [f"holds a document that {problem}"] if problem else []
            self._note(segment, time, code, name, [text or f"not read: the document {problem}"])
            return
        values = [*self._repetitions(segment, 5)]
        if kind in ("TX", "FT"):
            before = self._entries[-1] if self._entries else {}
            lines = [self._separators[3].join(one) for one in values]
            if before.get("segment") == "OBX" and before["kind"] == "note" and (
                before["code"] == code and not before["remarks"]
            ):  # fmt: skip
                before["lines"] += lines or [""]
            else:
                self._note(segment, time, code, name, lines)
            return
        value = self._value(segment, kind, values)
        flag, reference = self._text(segment, 8, 1), self.part(segment, 7)
        extra = "; ".join(filter(None, (flag, f"reference {reference}" if reference else "")))
        unit = self.part(segment, 6, 1) or self.part(segment, 6, 2)
        if extra or status in ("X", "P", "C"):
            value, unit = f"{value} {unit}".strip() + (f" ({extra})" if extra else ""), ""
        corrected = "corrected" if status == "C" else ""
        state = _RESULTS.get(status, "")
        self._add(segment, "measurement", time, code, name, value, corrected, codes=(state,),
                  unit=unit)  # fmt: skip

    def _value(self, segment: Segment, kind: str, values: list[list[str]]) -> str:
        if kind == "SN":
            return "".join(self.part(segment, 5, n) for n in (1, 2, 3, 4))
        if kind in ("CE", "CWE", "CNE", "CF"):
            texts = ((*one[1:2], *one[8:9], *one[4:5], one[0]) for one in values)
            return ", ".join(next(filter(None, one), "") for one in texts)
        if kind in ("TS", "DT", "DTM"):
            times = ((parse_ts(first), first) for first, *_ in values)
            return ", ".join(
                f"{time:%Y-%m-%d %H:%M}" if time and len(first) > 11 else date or first
                for (time, date), first in times
            )
        return ", ".join(" ".join(one).strip() for one in values)

    def _note(self, segment: Segment, time: datetime | None, code: str, name: str,
              lines: list[str]) -> None:  # fmt: skip
        title = self._document or self._order.get("name") or name or "Note"
        state = _RESULTS.get(self.part(segment, 11), "")
        self._add(segment, "note", time, code, title, *lines, codes=(state,), author=self._author)

    def _txa(self, segment: Segment) -> None:
        self._document = self._coded(segment, 2)[1]
        self._author = " ".join(filter(None, (self.part(segment, 9, n) for n in (3, 2))))
        time = self._stamp(segment, 4, 6, 7)
        self._order |= {"time": time, "control": self.part(segment, 19)}

    def _nte(self, segment: Segment) -> None:
        """A remark on the entry before it, or on an order or a patient, who are none."""
        texts = (self._separators[3].join(one) for one in self._repetitions(segment, 3))
        text = " ".join(filter(None, texts))
        is_apart = self._after in ("PID", "OBR", "ORC")
        if text and self._entries and not (
            is_apart and self._entries[-1]["segment"] != self._after
        ):  # fmt: skip
            self._entries[-1]["remarks"].append(text)
        elif text:
            time, code, name = (self._order.get(one) for one in ("time", "code", "name"))
            self._add(segment, "note", time, code or "", name or "Remark", text)
            self._after = "NTE"
