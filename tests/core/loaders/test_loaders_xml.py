"""Record XML: both formats, every kind of damaged file."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midchart.core.cohorts.columns import parse_time
from midchart.core.cohorts.files import LoadLog
from midchart.core.errors import DataError
from midchart.core.loaders.medalign import parse_code, read_record
from midchart.core.storage.sources import Source
from tests.support.cases import CASES

RELEASE = (CASES / "medalign/record_of_the_release/input/ehrs/a.xml").read_text("utf-8")
ROOT = Path(__file__).parents[3]


def write(folder: Path, text: str | bytes, name: str = "a.xml") -> Source:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Source(path, folder)


@pytest.mark.parametrize(
    ("line", "kind", "name", "value", "unit"),
    [
        ("[L/1] Body weight 80 kg ", "measurement", "Body weight", "80", "kg"),
        ("[L/1] Blood pressure 120/80", "measurement", "Blood pressure", "120/80", ""),
        ("[L/1] Glucose <5.5 mmol/L", "measurement", "Glucose", "<5.5", "mmol/L"),
        ("[L/1] Oxygen saturation 96 %", "observation", "Oxygen saturation", "96", "%"),
        ("[L/1] 12 lead ECG", "measurement", "12 lead ECG", "", ""),
        ("[L/1] Glucose 2 hour post dose", "measurement", "Glucose 2 hour post dose", "", ""),
        ("[L/1] Labetalol 5mg IV x 1", "drug_exposure", "Labetalol 5mg IV x 1", "", ""),
        ("no code 5", "measurement", "no code", "5", ""),
    ],
)
def test_a_code_line_is_split_only_where_unambiguous(line, kind, name, value, unit):
    assert parse_code(line, kind)[1:] == (name, value, unit)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2014-08-10 23:59", datetime(2014, 8, 10, 23, 59)),
        (" 2014-08-10T23:59:58 ", datetime(2014, 8, 10, 23, 59, 58)),
        ("2014-08-10T23:59:58+02:00", datetime(2014, 8, 10, 23, 59, 58)),
        ("2014-08-10T23:59:58.25Z", datetime(2014, 8, 10, 23, 59, 58, 250000)),
        ("2014-08-10", datetime(2014, 8, 10)),
        ("10/08/2018 20:00", datetime(2018, 10, 8, 20)),
        ("10/08/2018 08:00 PM", datetime(2018, 10, 8, 20)),
        ("10/08/2018 9:00 PM", datetime(2018, 10, 8, 21)),
        ("10/08/2018 20:00 PM", datetime(2018, 10, 8, 20)),
        ("1/2/2018 12:05 AM", datetime(2018, 1, 2, 0, 5)),
        ("1/2/2018 12:05 p.m.", datetime(2018, 1, 2, 12, 5)),
        ("1/2/2018", datetime(2018, 1, 2)),
        ("13/02/2018", None), ("02/30/2018", None), ("10/08/18", None), ("1/2/2018 14:00 AM", None),
        ("", None), ("NULL", None), ("yesterday", None), (None, None), ("1/2/2018 25:00", None),
    ],
)  # fmt: skip
def test_times_are_read_in_every_format(text: str | None, time: datetime | None):
    assert parse_time(text) == time


XML_TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), max_size=30
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["2014-08-10 10:00", "2013-01-01T00:00:05", "2020-02-02 09:09", "?"]),
        st.sampled_from(["note", "measurement", "NULL", "drug_exposure"]),
        st.sampled_from(["NULL", "Glucose", ""]) | XML_TEXT,
        st.sampled_from(["start", "NULL", ""]) | XML_TEXT,
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(EVENTS)
def test_the_texts_of_all_events_are_read(tmp_path_factory, events):
    body = "\n".join(
        f"<entry timestamp={quoteattr(time)}>"
        f"<event type={quoteattr(kind)} name={quoteattr(name)} unit='mg'>{escape(text)}</event>"
        "</entry>"
        for time, kind, name, text in events
    )
    text = (
        f"<eventstream person_id='1'><encounter><events>{body}</events></encounter></eventstream>"
    )
    path = write(tmp_path_factory.mktemp("x"), text)
    record = read_record(path, LoadLog())
    written = ["" if text == "NULL" else text for *_, text in events]
    assert sorted(e.text for e in record.events) == sorted(written)


@pytest.mark.slow
def test_the_digest_depends_only_on_content(tmp_path: Path):
    one = read_record(write(tmp_path, RELEASE), LoadLog()).digest
    moved = RELEASE.replace("<events>", "\n\n<events>")
    assert read_record(write(tmp_path, moved), LoadLog()).digest == one
    for old, new in [("Two", "Too"), ("7.00", "7.0"), ("10:00:00", "10:00:01"), ("FEMALE", "MALE")]:
        other = read_record(write(tmp_path, RELEASE.replace(old, new)), LoadLog()).digest
        assert other != one, old
    code = "import sys; from midchart.core.storage.sources import Source\n"
    code += "from midchart.core.cohorts.files import LoadLog; "
    code += "from midchart.core.loaders.medalign import read_record"
    code += "; print(read_record(Source.at(sys.argv[1]), LoadLog()).digest)"
    call = [sys.executable, "-c", code, str(tmp_path / write(tmp_path, RELEASE, "b.xml").name)]
    printed = subprocess.run(call, capture_output=True, text=True, check=True, cwd=ROOT)
    assert printed.stdout.strip() == one


BOMB = '<?xml version="1.0"?><!DOCTYPE e [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;">]>'
BAD = {
    "cut off": (RELEASE[:600], "not well-formed"),
    "entities": (BOMB + "<eventstream><encounter>&b;</encounter></eventstream>", "DOCTYPE"),
    "external": ('<!DOCTYPE e SYSTEM "file:///etc/passwd"><eventstream/>', "DOCTYPE"),
    "external entity": ('<!DOCTYPE e [<!ENTITY x SYSTEM "x">]><record>&x;</record>', "DOCTYPE"),
    "undeclared entity": ("<eventstream>&nope;</eventstream>", "not well-formed"),
    "latin bytes": (b"<eventstream>\n\xe9</eventstream>", "not UTF-8"),
    "unknown encoding": (b'<?xml version="1.0" encoding="klingon"?><record/>', "encoding"),
    "binary": (bytes(range(256)) * 4, "not UTF-8"),
    "empty": (b"", "not well-formed"),
    "another root": ("<html/>", "neither <eventstream> nor <record>"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_damaged_file_is_reported_in_one_line(tmp_path: Path, case: str):
    text, says = BAD[case]
    with pytest.raises(DataError, match=says) as caught:
        read_record(write(tmp_path, text, "bad.xml"), LoadLog())
    assert caught.value.file == "bad.xml"
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
