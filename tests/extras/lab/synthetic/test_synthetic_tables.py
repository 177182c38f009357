"""Golden bytes of the synthetic cohorts, and errors of invalid reference tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from midchart.core.cohorts.demo import DEMOS, install
from midchart.core.errors import DataError, UnknownName
from midchart.core.reference_tables import read_yaml
from midchart.extras.lab.demos import generate
from midchart.extras.lab.synthetic import laboratory
from midchart.extras.lab.synthetic.facts import Facts
from midchart.extras.lab.synthetic.medicine import (
    Analyte,
    Disease,
    DoseRow,
    Drug,
    EpisodeKind,
    Risk,
)
from midchart.extras.lab.synthetic.patient import PeopleTable
from midchart.extras.lab.synthetic.reference import DATA, read_tsv
from midchart.extras.lab.synthetic.trajectory import effect
from tests.extras.lab.synthetic.test_synthetic_life import patient
from tests.support.synthetic_files import digest


@pytest.mark.parametrize("kind", DEMOS)
def test_the_generator_makes_the_included_cohort_byte_for_byte(tmp_path: Path, kind: str):
    """After a change of a table: ``python -m midchart.extras.lab.demos``."""
    installed, generated = tmp_path / "installed", tmp_path / "generated"
    counts = install(kind, installed)
    assert counts == generate(kind, generated, None, None, 42, None)
    assert digest(installed) == digest(generated)


KINDS: dict[str, Any] = {
    "diseases.yaml": tuple[Disease, ...],
    "episodes.yaml": tuple[EpisodeKind, ...],
    "people.yaml": PeopleTable,
    "facts_social.yaml": Facts,
    "facts_diagnosis.yaml": Facts,
    "risks.tsv": Risk,
    "drugs.tsv": Drug,
    "doses.tsv": DoseRow,
    "analytes.tsv": Analyte,
    "laboratory_drugs.tsv": laboratory.LaboratoryDrug,
}


@pytest.mark.parametrize(
    ("name", "old", "new", "reason", "at"),
    [
        ("diseases.yaml", "drug: carvedilol", "drug: carvedilo", "Did you mean carvedilol", ""),
        ("diseases.yaml", "successor: losartan", "successor: losarta", "unknown drug", ""),
        ("diseases.yaml", "stable:", "stabel:", "rename it to 'stable'", ""),
        ("diseases.yaml", "labs: [bmp, bnp]", "labs: [bmq, bnp]", "panel or analyte 'bmq'", ""),
        ("diseases.yaml", "{wt} kg", "{weigt} kg", "unknown slot 'weigt'", "- >-"),
        ("diseases.yaml", "analyte: a1c", "analyte: hba1c", "unknown analyte 'hba1c'", ""),
        ("diseases.yaml", "share: 0.7", "share: most", "valid number", ""),
        ("diseases.yaml", "key: af", "key: hfref", "'hfref' is repeated", ""),
        ("diseases.yaml", "short: AF", "name: AF", "'name' is repeated", ""),
        ("diseases.yaml", "  short: AF\n", "", "column 'short' is missing", "key: af"),
        ("diseases.yaml", "short: AF", "]: AF", "correct its YAML syntax", ""),
        ("episodes.yaml", "setting: IP", "setting: OP", "'OP'", ""),
        ("episodes.yaml", "{bnp: 5200", "{bpn: 5200", "unknown analyte or egfr% 'bpn'", ""),
        ("people.yaml", "conditions: [copd", "conditions: [cpod", "Did you mean copd", ""),
        ("people.yaml", "{t2dm: 0.4", "{tdm: 0.4", "unknown condition 'tdm'", ""),
        ("facts_social.yaml", "need: smoker", "need: smokes", "Did you mean smoker", ""),
        ("facts_diagnosis.yaml", "need: copd", "need: cpod", "or condition 'cpod'", ""),
        ("facts_social.yaml", "{n} pack-years in", "{m} pack-years in", "slot 'm'", "key: quit"),
        ("facts_social.yaml", "vary: y", "vary: year", "unknown slot 'year'", "key: quit"),
        ("facts_social.yaml", '["12", ', "[12, ", "valid string", ""),
        ("facts_social.yaml", "section: social", "section: socail", "'socail'", ""),
        ("risks.tsv", "hfref\tchf", "hfreff\tchf", "unknown condition 'hfreff'", ""),
        ("risks.tsv", "hfref\tchf\t0.9", "hfref\tchf", "2 cells", ""),
        ("drugs.tsv", "Lipitor\tstatin", "Lipitor\tstatn", "Did you mean statin", ""),
        ("doses.tsv", "lisinopril\t5 mg", "lisinoprol\t5 mg", "Did you mean lisinopril", ""),
        ("analytes.tsv", "\tspread", "\tspred", "rename it to 'spread'", "na\t"),
        ("analytes.tsv", "cl\t2075-0", "na\t2075-0", "key 'na' is repeated", ""),
        ("laboratory_drugs.tsv", "\tHeart failure\t", "\tHeart failing\t", "Heart failure", ""),
    ],
)
def test_a_misfit_is_an_error_with_file_line_and_remedy(
    tmp_path: Path, name: str, old: str, new: str, reason: str, at: str
):
    """``at`` is in the line that the error names: by default what was misspelt."""
    text = (DATA / name).read_text("utf-8").replace(old, new, 1)
    path = tmp_path / Path(name).name
    path.write_text(text, "utf-8")
    with pytest.raises(DataError) as error:
        (read_tsv if name.endswith("tsv") else read_yaml)(KINDS[name], path)
    assert reason in str(error.value)
    assert error.value.file == str(path) and error.value.remedy
    assert error.value.line is not None and (at or new) in text.splitlines()[error.value.line - 1]


@pytest.mark.parametrize("name", KINDS)
def test_the_table_as_it_is_fits(name: str):
    assert (read_tsv if name.endswith("tsv") else read_yaml)(KINDS[name], DATA / name)


def test_an_unknown_class_of_drugs_has_no_silent_effect():
    with pytest.raises(UnknownName, match="sglt2"):
        effect(patient({}), "sglt-2", patient({}).first, 10)
