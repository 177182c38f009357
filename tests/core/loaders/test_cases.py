"""Each case is read as its ``expected.json`` says, from its files and from what is stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from midchart.core.loaders.open import close_cohorts
from tests.support.cases import CASES, EXPECTED, cases, described


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.relative_to(CASES).as_posix())
def test_a_case_is_read_as_expected(case: Path) -> None:
    expected = json.loads((case / EXPECTED).read_text("utf-8"))
    assert described(case) == expected
    close_cohorts()
    assert described(case) == expected
