"""What runs of kind answers and selection show, in sentences.

Pure functions of a report. Arms differ only where p is significant after Holm's adjustment; without
a difference, the smallest detectable one is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from midchart.core.format import listed, percent, signed, with_interval
from midchart.core.results.titles import split_label, title
from midchart.core.runs.declared import Conclusion

CLAIMS = ("better", "worse")
"""The verdicts that claim a difference."""
NAMED = 3
"""Arms named one by one; more are counted."""
Row = Mapping[str, Any]


def rows_of(rows: Sequence[Row] | None, **fixed: Any) -> list[Row]:
    """The rows of a table that have these values."""
    return [row for row in rows or () if all(row.get(k) == v for k, v in fixed.items())]


def _arms(rows: Sequence[Row]) -> str:
    """Arms with their differences, or how many there are and the largest difference."""
    ranked = sorted(rows, key=lambda row: -abs(row["difference"]))
    names = [
        f"{title('arm', row['label'])} ({signed(row['difference'])} points)"
        for row in ranked[:NAMED]
    ]
    if len(ranked) <= NAMED:
        return listed(names)
    return f"{len(ranked)} arms ({names[0].replace(' (', ' ').removesuffix(')')} the furthest)"


def as_read(tables: Mapping[str, Any], reader: str, label: str) -> str:
    """An arm's title with what of it a reader got, where most of its prompts were cut."""
    name = title("arm", label)
    by = {"reader": reader, "label": label}
    lengths = rows_of(tables.get("tokens"), **by)
    if not lengths or 2 * (lengths[0]["prompts_cut"] or 0) <= lengths[0]["n"]:
        return name
    name += f", cut to {100 * (1 - lengths[0]['cut_share']):.0f} %"
    pieces = {"criterion": "all pieces in prompt", "band": "overall"}
    shown = rows_of(tables.get("recall"), **by, **pieces)
    return f"{name} (all evidence inside: {shown[0]['hits']} of {shown[0]['n']})" if shown else name


def headline(tables: Mapping[str, Any], reader: str, judge: str, baseline: str) -> str:
    """One sentence: which arms differ significantly from the baseline. ``tables`` hold ``accuracy``
    and ``paired`` (against that baseline) of a run of kind answers."""
    by = {"reader": reader, "judge": judge}
    overall = rows_of(tables.get("accuracy"), **by, band="overall", label=baseline)
    pairs = [row for row in rows_of(tables.get("paired"), **by) if row["n"]]
    name = as_read(tables, reader, baseline)
    if not overall or not overall[0]["n"]:
        return f"No answer under {name} has been judged yet."
    accuracy = overall[0]
    correct = f"{percent(accuracy['accuracy'])} correct"
    if not pairs:
        share = with_interval(*(accuracy[c] for c in ("accuracy", "patient_low", "patient_high")))
        correct = share.replace(" %", " % correct", 1)
        return f"{name}: {correct} of {accuracy['n']:,} questions."
    unclaimed = [row for row in pairs if row["verdict"].startswith("not claimed")]
    parts: list[str] = []
    rest = len(pairs) - len(unclaimed)
    for verdict in ("better", "worse"):
        rows = [row for row in pairs if row["verdict"] == verdict]
        rest -= len(rows)
        if rows:
            parts.append(f"{_arms(rows)} {'is' if len(rows) == 1 else 'are'} {verdict}")
    for verdict in dict.fromkeys(row["verdict"] for row in unclaimed):
        rows = [row for row in unclaimed if row["verdict"] == verdict]
        reason = verdict.partition(": ")[2]
        parts.append(f"no difference is claimed for {_arms(rows)}: {reason}")
    if not parts and len(pairs) == 1:
        other = title("arm", pairs[0]["label"])
        return f"{other} does not differ significantly from {name} ({correct})."
    if not parts:
        return (
            f"None of {len(pairs)} arms is significantly different from {name} ({correct}; "
            "Holm-adjusted)."
        )
    if rest:
        other = "the other one does" if rest == 1 else f"the other {rest} do"
        parts.append(f"{other} not differ significantly")
    return f"Against {name} ({correct}): {'; '.join(parts)}.{_not_by_all(pairs)}"


def _not_by_all(pairs: Sequence[Row]) -> str:
    """Of claimed differences, those that another judge of the run does not show."""
    alone = [
        title("arm", row["label"])
        for row in pairs
        if row["verdict"] in CLAIMS and row.get("other_judges")
    ]
    if not alone:
        return ""
    which = listed(alone) if len(alone) <= NAMED else f"{len(alone)} of them"
    return f" Not every judge shows it for {which}."


def judged_by(tables: Mapping[str, Any], reader: str, judge: str, chosen: str) -> str:
    """Which judge the headline is by, the differences that only some judges show, and whose the
    figures below are where another judge is ``chosen``."""
    texts = [f"Judged by {title('judge', judge)}, the primary judge of this run."]
    rows = rows_of(tables.get("paired"), reader=reader)
    parts: list[str] = []
    for label in dict.fromkeys(row["label"] for row in rows):
        verdicts = {row["judge"]: row["verdict"] for row in rows_of(rows, label=label)}
        if len({v if v in CLAIMS else "" for v in verdicts.values() if v is not None}) > 1:
            by_judge = (f"{v} by {title('judge', name)}" for name, v in verdicts.items() if v)
            parts.append(f"{title('arm', label)}: {', '.join(by_judge)}")
    if parts:
        more = f"; and {len(parts) - NAMED} more arms" if len(parts) > NAMED else ""
        texts.append(f"Only some judges show a difference for {'; '.join(parts[:NAMED])}{more}.")
    if chosen != judge:
        texts.append(f"The figures below are by {title('judge', chosen)}.")
    return " ".join(texts)


def size(tables: Mapping[str, Any], reader: str, judge: str) -> str:
    """What the headline rests on, and which difference it could have missed."""
    by = {"reader": reader, "judge": judge}
    detectable = rows_of(tables.get("detectable"), **by)
    if not detectable:
        return ""
    row = detectable[0]
    overall = rows_of(tables.get("accuracy"), **by, band="overall")
    patients = max((row["patients"] for row in overall), default=0)
    text = f"{row['n']:,} questions of {patients:,} patients; "
    if row["comparisons"] == 1:
        text += "one comparison, McNemar's exact test"
    else:
        text += f"{row['comparisons']} comparisons, McNemar's exact test with Holm's adjustment"
    if row["among_all"] is None:
        return f"{text}. With this sample size no difference could have been detected."
    return (
        f"{text}. A true difference of {100 * row['among_all']:.0f} points or more would be "
        "detected with power .8; a smaller one may have been missed."
    )


def cautions(tables: Mapping[str, Any], reader: str, judge: str) -> list[str]:
    """Warnings about the judge, published faults and unscored answers."""
    by = {"reader": reader, "judge": judge}
    texts: list[str] = []
    name = title("judge", judge)
    if "offline" in name.lower():
        texts.append(f"The judge {name} is rule-based, not a clinician's verdict.")
    if split_label(judge)[0] == "nli":
        texts.append(f"The judge {name} is a small NLI model, not a clinician's verdict.")
    for row in rows_of(tables.get("reviews"), judge=judge):
        texts.append(
            f"The judge {name} represents human reviewers: {row['judged']:,} of "
            f"{row['cards_in_all']:,} distinct answers judged correct or incorrect, "
            f"{row['cannot_judge']:,} seen and not scored."
        )
    faults = rows_of(tables.get("faults"), **by)
    for fault in dict.fromkeys(row["fault"] for row in faults):
        affected = sum(row["n"] for row in rows_of(faults, fault=fault, struck=True))
        total = sum(row["n"] for row in rows_of(faults, fault=fault))
        if affected:
            texts.append(
                f"{affected:,} of {total:,} judged answers are affected by a published fault: "
                f"{fault}."
            )
    overall = rows_of(tables.get("accuracy"), **by, band="overall")
    for outcome in ("unparsed", "failed"):
        count = sum(row[outcome] for row in overall)
        if count:
            texts.append(f"{count:,} verdicts {outcome}: excluded from all denominators.")
    return texts


def recall_headline(tables: Mapping[str, Any]) -> str:
    """One sentence on a run without a reader: which arm keeps all pieces of the evidence most
    often, within the protocol's own prompt limits where it sets any; how often any piece, and both
    by chance."""
    recall = rows_of(tables.get("recall"), band="overall")
    limited = rows_of(recall, criterion="all pieces in prompt")
    where = "within the protocol's prompt limits" if limited else "before any prompt limit"
    rows = [
        row
        for row in limited or rows_of(recall, criterion="all pieces")
        if row["n"] and row["arm"] not in ("oracle", "full")
    ]
    if not rows:
        return "No selection of this run can be evaluated yet."
    best, last = (choose(rows, key=lambda row: row["recall"]) for choose in (max, min))
    share = with_interval(best["recall"], best["patient_low"], best["patient_high"])
    ties = sum(row["recall"] == best["recall"] for row in rows) - 1
    rank = f"the most of {len(rows)} arms"
    if ties:
        rank += f", as do {ties} other{'s' if ties > 1 else ''}"
    text = (
        f"{title('arm', best['label'])} keeps all pieces of the evidence of {share} of "
        f"{best['n']:,} questions{_chance(best, 'chance')}, {rank}, {where}, "
        f"and any piece of {percent(best['any_piece'])}{_chance(best, 'any_piece_chance')}"
    )
    if last is not best:
        text += f"; {title('arm', last['label'])} keeps all of {percent(last['recall'])}, the least"
    return text + ". Differences on the same questions are in table differences of the report."


def _chance(row: Row, column: str) -> str:
    """A chance level in brackets; "" where it is not known."""
    return "" if row.get(column) is None else f" (chance {percent(row[column])})"


def conclusion(
    report: Mapping[str, Any], reader: str = "", judge: str = "", baseline: str = ""
) -> Conclusion:
    """By the primary judge, of ``reader`` (default: the first) against ``baseline`` (default: the
    run's first arm); ``judge``: whose figures are also shown."""
    tables = report["tables"]
    rows = tables.get("accuracy") or []
    by = report["primary_judge"]
    if not by or not rows:
        return Conclusion(recall_headline(tables), details(report))
    reader, baseline = reader or rows[0]["reader"], baseline or rows[0]["label"]
    judges = dict.fromkeys((by, judge or by))
    cautioned = [one for name in judges for one in cautions(tables, reader, name)]
    below = (
        judged_by(tables, reader, by, judge or by),
        size(tables, reader, by),
        " ".join(dict.fromkeys(cautioned)),
    )
    first = headline(tables, reader, by, baseline)
    return Conclusion(first, (*filter(None, below), *details(report)))


def details(report: Mapping[str, Any]) -> tuple[str, ...]:
    """Whose patients the tables count where a gate of the run has seen some, and by which faults
    the protocol differs."""
    part = report.get("part") or {}
    texts: list[str] = []
    if part.get("seen"):
        arms = ", ".join(f"{title('arm', name)} {n}" for name, n in part["seen"].items())
        texts.append(
            f"All arms are reported on the {part['patients']:,} patients not used to train a gate "
            f"of this run; training patients: {arms}, reported separately."
            if part["name"] == "test"
            else f"Patients used to train a gate of this run are included ({arms})."
        )
    texts += [
        f"{warning[:1].upper()}{warning[1:].rstrip('.')}."
        for warning in report["warnings"]
        if warning.startswith(PROTOCOL_DIFFERS)
    ]
    return tuple(texts)


PROTOCOL_DIFFERS = "the protocol differs"
"""How a report's warning begins that belongs to its conclusion."""
