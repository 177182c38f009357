"""The figures of README, guide, model card and pages: each is carried by a claim, and those that
are read from included runs hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from midchart.core import api
from midchart.core.results.claims import FIGURE, check_claims, read_claims, states, unsupported
from tests.support.run_helpers import workspace_at

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "docs/guide.md")
LEVELS = ("95 %", "0 %", "100 %", "5 %", "30–70 %", "0–10 %", "10–90 %")
"""Levels of intervals and edges of bands, on pages."""


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_figure_of_a_document_is_carried_by_a_claim(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    assert unsupported(document, text, read_claims()) == []


def test_a_figure_without_a_claim_is_seen() -> None:
    text = (ROOT / "README.md").read_text("utf-8") + "\nBM25 keeps 83.1 % of the evidence.\n"
    (passage,) = unsupported("README.md", text, read_claims())
    assert "83.1 %" in passage


def test_the_model_card_names_the_command_of_its_figures() -> None:
    for document in read_claims().documents:
        assert states(document.document, document.command)


def texts_of_pages() -> Iterator[tuple[Path, int, str]]:
    """Texts of pages that are shown, with their lines; docstrings and style sheets are left out."""
    for file in sorted((ROOT / "pages").rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        described = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and id(node) not in described and "{" not in text:
                yield file, node.lineno, text


def test_pages_state_no_figure_that_is_not_computed() -> None:
    carried = {
        document
        for claim in read_claims().claims
        for document in claim.documents
        if states(document, claim.states)
    }
    figures = [
        f"{file.relative_to(ROOT)}:{line}: {match[0]}"
        for file, line, text in texts_of_pages()
        for match in FIGURE.finditer(text)
        if not any(match[0] in level for level in LEVELS)
        and file.relative_to(ROOT).as_posix() not in carried
    ]
    assert not figures, "\n".join(figures)


@pytest.mark.slow
def test_claims_of_included_runs_hold(tmp_path: Path) -> None:
    with workspace_at(tmp_path):
        api.open_examples("cross_fitted")
        rows = check_claims()
    outcomes = {row["claim"][:60]: (row["outcome"], row["reason"]) for row in rows}
    assert not [one for one in outcomes.items() if one[1][0] == "fails"]
    by_spec = [row for row in rows if row["outcome"] == "holds"]
    assert len(by_spec) >= 10, "the cross-fitted runs and the paper's cell are read"


def test_a_claim_that_its_run_contradicts_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "claims.toml"
    text = (ROOT / "docs" / "claims.toml").read_text("utf-8")
    file.write_text(text.replace('value = "67.8"', 'value = "66.8"'))
    monkeypatch.setattr(read_claims, "__defaults__", (file,))
    with workspace_at(tmp_path / "empty"):
        failed = [row for row in check_claims() if row["outcome"] == "fails"]
    assert [row["reason"] for row in failed] == ["66.8 is 67.8"]
