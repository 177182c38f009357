"""A small cohort of coded events whose answer hangs on values, in EHRSHOT's layout, and examples
cut from generated sequences."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from midchart.core.training_experiments.forecast.examples import (
    Examples,
    SplitExamples,
    learn_vocabulary,
)
from tests.support.run_helpers import allow

LENGTH = 12


def drawn(n: int, first_patient: int, seed: int) -> tuple[np.ndarray, ...]:
    """Codes, values, labels, patients: positive where code 3's values are high on the whole."""
    rng = np.random.default_rng([seed, first_patient])
    codes = rng.integers(1, 20, (n, LENGTH)).astype(np.int32)
    codes[:, -1] = 3
    values = np.where(codes <= 4, rng.normal(size=codes.shape), np.nan).astype(np.float32)
    short = np.arange(LENGTH) < (LENGTH - rng.integers(3, LENGTH + 1, n))[:, None]
    codes[short], values[short] = 0, np.nan
    level = np.where(codes == 3, np.nan_to_num(values), 0).sum(1)
    label = (level + rng.normal(size=n) * 0.3 > 0.3).astype(np.uint8)
    return codes, values, label, first_patient + np.arange(n) // 2


def make_examples(
    train: int = 192, other: int = 96, with_values: bool = True, seed: int = 0
) -> Examples:
    """Examples of three disjoint parts."""
    parts = [drawn(n, at, seed) for n, at in ((train, 0), (other, 10**6), (other, 2 * 10**6))]
    vocabulary = learn_vocabulary(parts[0][0], parts[0][1], with_values)
    return Examples(
        "anemia",
        vocabulary,
        *(
            SplitExamples(vocabulary.tokens(codes, values), label, patient, np.arange(len(label)))
            for codes, values, label, patient in parts
        ),
    )


def write_cohort(folder: Path, patients: int = 60, training: bool = True) -> Path:
    """EHRSHOT's layout: haemoglobin and noise every day, anaemia where it was low of late."""
    rng = np.random.default_rng(4)
    assets = folder / "EHRSHOT_ASSETS"
    for inner in ("data", "splits", "benchmark/anemia", "benchmark/hyperkalemia"):
        (assets / inner).mkdir(parents=True)
    events, labels = ["patient_id,start,end,code,value,unit,visit_id,omop_table"], []
    splits = ["split,omop_person_id"]
    for id in range(1, patients + 1):
        splits.append(f"{('train', 'val', 'test')[id % 3]},{id}")
        level = rng.normal()
        for day in range(1, 25):
            level = 0.8 * level + 0.6 * rng.normal()
            at = f"2020-01-{day:02d}T08:00:00"
            events.append(f"{id},{at},,LOINC/718-7,{12 + 2 * level:.2f},g/dL,,measurement")
            events.append(f"{id},{at},,SNOMED/{rng.integers(10)},,,,condition_occurrence")
            if day % 6 == 0:
                grade = int(level < 0) * int(rng.integers(1, 4))
                labels.append(f"{id},2020-01-{day:02d}T12:00:00,categorical,{grade}")
    (assets / "data/ehrshot.csv").write_text("\n".join(events) + "\n")
    (assets / "splits/person_id_map.csv").write_text("\n".join(splits) + "\n")
    for task in ("anemia", "hyperkalemia"):
        table = ["patient_id,prediction_time,label_type,value", *labels]
        (assets / f"benchmark/{task}/labeled_patients.csv").write_text("\n".join(table) + "\n")
    (folder / "midchart.toml").write_text(
        f'name = "labs"\nsynthetic = true\ntraining_allowed = {str(training).lower()}\n'
    )
    return allow(folder, "training_allowed") if training else folder
