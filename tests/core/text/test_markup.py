"""Markup as text: rows, lists, notes and deletions of CDA narrative and HTML."""

from __future__ import annotations

from html import escape
from time import process_time
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midchart.core.text.markup import ROW_TOKENS, html_text, markup_text


def cda(inner: str) -> str:
    return markup_text(ElementTree.fromstring(f"<text>{inner}</text>"))


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ("<paragraph>Patient has\n     fever.</paragraph>", "Patient has fever."),
        (
            "<table>\n <thead>\n <tr>\n <th>Test</th>\n <th>Value</th> </tr></thead>\n"
            "<tbody><tr>\n <td>Ferritin</td>\n <td>812</td>\n </tr></tbody></table>",
            "Test: Ferritin; Value: 812",
        ),
        (
            "<table><thead><tr><th>Drug</th><th>Start</th><th>Stop</th></tr></thead><tbody>"
            "<tr><td>Warfarin</td><td/><td>2020-03-01</td></tr><tr><td/><td/><td/></tr>"
            "<tr><td>Apixaban</td><td>2020-03-02</td></tr></tbody></table>",
            "Drug: Warfarin; Stop: 2020-03-01\nDrug: Apixaban; Start: 2020-03-02",
        ),
        (
            "<table><tr><th>Name</th><td>Ann</td></tr><tr><th>Age</th><td>5</td></tr></table>",
            "Name: Ann\nAge: 5",
        ),
        ("<table><tr><td>Ferritin</td><td>812</td></tr></table>", "Ferritin | 812"),
        (
            "<table><thead><tr><th>Substance</th></tr></thead><tr><td>Codeine</td></tr></table>",
            "Substance: Codeine",
        ),
        (
            "<table><tr><th>Panel</th><th>V</th></tr><tr><td rowspan='2'>Blood</td><td>1</td></tr>"
            "<tr><td>2</td></tr></table>",
            "Panel: Blood; V: 1\nPanel: Blood; V: 2",
        ),
        (
            "<table><thead><tr><th rowspan='2'>Drug</th><th colspan='2'>Given</th></tr>"
            "<tr><th>from</th><th>to</th></tr></thead><tr><td>A</td><td/><td>2020</td></tr></table>",
            "Drug: A; Given to: 2020",
        ),
        (
            "<table><tr><th>A</th><th>B</th></tr><tr><td colspan='2'>see below</td></tr>"
            "<tr><td>1</td><td>2</td></tr></table>",
            "see below\nA: 1; B: 2",
        ),
        (
            "<table><thead><tr><th>Panel</th><th>Result</th></tr></thead><tr><td>Blood</td><td>"
            "<table><tr><th>T</th><th>V</th></tr><tr><td>Hb</td><td>1</td></tr></table></td></tr>"
            "</table>",
            "Panel: Blood; T: Hb; V: 1",
        ),
        (
            "<table><tr><th>Name</th><th>State</th></tr><tr><td>Proventil<list><item><table><tr>"
            "<td>Quantity: 1</td></tr></table></item></list></td><td>Active</td></tr></table>",
            "Name: Proventil, Quantity: 1; State: Active",
        ),
        ("<list><caption>Found</caption><item>a</item><item>b</item></list>", "Found:\n- a\n- b"),
        ('<list listType="ordered"><item>a</item><item>b</item></list>', "1. a\n2. b"),
        ("Count 10<sup>9</sup>/L, H<sub>2</sub>O, 1<sup>st</sup>", "Count 10^9/L, H2O, 1st"),
        ("one<br/>two", "one\ntwo"),
        ("<content>812</content><content>ug/L</content>", "812 ug/L"),
        ("H<content>ello</content>", "Hello"),
        ('<content revised="delete">10 mg</content><content>5 mg</content>', "5 mg"),
        ('<content styleCode="Strikethrough">10 mg</content> 5 mg', "5 mg"),
        ('a<footnoteRef IDREF="f"/><footnote ID="f">fasting</footnote>', "a (fasting) (fasting)"),
        ("<![CDATA[<content>Stop <b>digoxin</b>&nbsp;today.</content><br/>Review]]>",
         "Stop digoxin today.\nReview"),
        ("<![CDATA[sodium <135 and potassium >5]]>", "sodium <135 and potassium >5"),
        ('<renderMultiMedia referencedObject="x"><caption>ECG</caption></renderMultiMedia>',
         "[image not read: ECG:]"),
    ],
)  # fmt: skip
def test_narrative_as_text(inner: str, text: str) -> None:
    assert cda(inner) == text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>a</p><del>b</del><s>c</s><p style='text-decoration: line-through'>d</p>", "a"),
        ("<div style='display: none'>a</div><div hidden>b</div><script>c</script>d", "d"),
        ("<h2>Plan</h2><p>Rest</p>", "Plan:\nRest"),
        ("<pre>a  b\n  c</pre>", "a b\nc"),
        ("<table><tr><td><b>Test</b></td><td><b>Value</b></td></tr><tr><td>Na</td><td>140</td></tr>",
         "Test: Na; Value: 140"),
        ("<table><tr><td><b>Na</b></td><td><b>140</b></td></tr><tr><td>K</td><td>4</td></tr>",
         "Na: 140\nK | 4"),
        ("", ""),
    ],
)  # fmt: skip
def test_html_as_text(markup: str, text: str) -> None:
    assert html_text(markup) == text


def test_a_long_row_is_split_between_cells_with_its_name_repeated() -> None:
    cells = ["warfarin", *(f"word{i} " * 30 for i in range(5))]
    heads = "".join(f"<th>H{i}</th>" for i in range(6))
    row = "".join(f"<td>{cell}</td>" for cell in cells)
    lines = cda(f"<table><tr>{heads}</tr><tr>{row}</tr></table>").split("\n")
    assert len(lines) > 1
    assert all(line.startswith("H0: warfarin; H") for line in lines)
    assert all(
        len(line.replace(":", " : ").replace(";", " ; ").split()) <= ROW_TOKENS for line in lines
    )
    for i, cell in enumerate(cells[1:], 1):
        assert sum(f"H{i}: {cell.strip()}" in line for line in lines) == 1


WORDS = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=8)


@given(st.lists(st.lists(WORDS, min_size=2, max_size=4), min_size=1, max_size=5), st.booleans())
def test_no_cell_is_lost_or_moved(rows: list[list[str]], indented: bool) -> None:
    width = max(map(len, rows))
    gap = "\n    " if indented else ""
    heads = "".join(f"<th>Head{i}</th>" for i in range(width))
    body = gap.join(
        f"<tr>{gap}{gap.join(f'<td>{escape(cell)}</td>' for cell in row)}{gap}</tr>" for row in rows
    )
    lines = cda(f"<table>{gap}<tr>{heads}</tr>{gap}{body}{gap}</table>").split("\n")
    assert lines == ["; ".join(f"Head{i}: {c}" for i, c in enumerate(row)) for row in rows]


@given(st.data(), st.integers(2, 6), st.integers(1, 6))
def test_a_cell_that_spans_is_in_each_row_that_it_spans(
    data: st.DataObject, width: int, height: int
) -> None:
    texts: dict[tuple[int, int], str] = {}
    expected: list[list[str]] = [[] for _ in range(height)]
    body = ""
    for row in range(height):
        body += "<tr>"
        for column in range(width):
            if (row, column) in texts:
                continue
            free = next((c for c in range(column, width) if (row, c) in texts), width) - column
            columns = data.draw(st.integers(1, free))
            rows = data.draw(st.integers(1, height - row)) if column else 1
            text = f"Cell{row}x{column}"
            texts |= {
                (row + down, column + right): text
                for down in range(rows)
                for right in range(columns)
            }
            body += f"<td colspan='{columns}' rowspan='{rows}'>{text}</td>"
        body += "</tr>"
    for row in range(height):
        shown = [texts[row, column] for column in range(width)]
        for column, text in enumerate(shown):
            if text not in shown[:column]:
                expected[row].append(
                    text if shown.count(text) > 1 else f"Head{column}: {text}"
                )  # below several headers it is a remark
    heads = "".join(f"<th>Head{column}</th>" for column in range(width))
    lines = cda(f"<table><tr>{heads}</tr>{body}</table>").split("\n")
    assert lines == ["; ".join(cells) for cells in expected]


def test_a_line_of_many_exponents_takes_time_in_proportion_to_them() -> None:
    start = process_time()
    assert cda("10<sup>9</sup> <sup/>" * 60_000) == " ".join(["10^9"] * 60_000)
    assert process_time() - start < 8


LONG = " ".join(f"word{number}" for number in range(200))
ROWS, CELLS = "<tr><td>3</td><td>4</td></tr>" * 500, f"<td>{'cell ' * 60}</td>" * 200
SPANNING = "<table><tr><td rowspan='900'>{}</td><td>first</td></tr>{}</table>"
REPEATED = {
    "cell": SPANNING.format(LONG, ROWS),
    "column": (
        f"<table><tr><th>{LONG}</th><th>B</th></tr><tr><td>1</td><td>2</td></tr>{ROWS}</table>"
    ),
    "row": f"<table><tr><th>{LONG}</th><td>first</td>{CELLS}</tr></table>",
    "inner rows": SPANNING.format(
        f"<table><tr><th>A</th><th>B</th></tr><tr><td>{LONG}</td><td>5</td></tr></table>", ROWS
    ),
    "footnote": (
        f"<p>Fever <footnote ID='a'>{LONG}</footnote></p>"
        + "<p>x <footnoteRef IDREF='a'/></p>" * 500
    ),
}


@pytest.mark.parametrize("what", REPEATED)
def test_a_long_text_is_written_in_full_once(what):
    text = cda(REPEATED[what])
    assert text.count("word199") == 1
    assert len(text) < 20 * len(REPEATED[what])
    assert text.count("first") == (0 if what in ("column", "footnote") else 1)
