"""A curve in two or three sentences that a clinician can read and a statistician cannot fault.

Says how large the pre-specified difference is and how surely, what the gap between the best and
the worst bin is worth, and what these data could not have seen.
"""

from __future__ import annotations

from math import isnan

from core.experiments.curve.study import ALPHA, FEWEST_CLUSTERS, Curve
from core.stats.reported import FEWEST_CLUSTERS as FEWEST_REPORTED

NOUNS = {
    "clinician": "Accuracy by the clinicians' verdict",
    "exact": "Accuracy by exact match",
    "jaccard": "Mean token overlap (Jaccard)",
}
SIMULATED = (
    "Simulated answers: generated with a declared effect of position and say nothing "
    "about any real model."
)
ONE_OF_MANY = "This is one of several groups looked at; p values are not corrected for that."


def verdict(curve: Curve, score: str, simulated: bool = False, one_of_many: bool = False) -> str:
    """The curve in words.

    ``score`` is a name of :data:`NOUNS`; ``simulated`` says first that no model gave these
    answers; ``one_of_many`` adds that the curve is that of one group among several.
    """
    said = [SIMULATED] if simulated else []
    if isnan(curve.difference) or isnan(curve.difference_p):
        said.append(_too_little(curve, score))
    else:
        found = _significant(curve.difference_holm) or _significant(curve.quadratic_holm)
        said += [_contrast(curve, score), _gap(curve), _caution(curve, found)]
    return " ".join([*said, ONE_OF_MANY] if one_of_many else said)


def _too_little(curve: Curve, score: str) -> str:
    why = (
        "all their evidence lies on one side: in the middle of the record (30–70 %), or outside it"
        if isnan(curve.difference)
        else "no two questions were answered alike, so that chance cannot be worked out"
    )
    share = curve.edge if isnan(curve.middle) else curve.middle
    told = f"{NOUNS[score]} is {_percent(share)}" if isnan(curve.difference) else NOUNS[score]
    return (
        f"{told} over {_count(curve.rows, 'answer')} to {_count(curve.cluster_count, 'question')}; "
        f"nothing can be said about position, as {why}."
    )


def _contrast(curve: Curve, score: str) -> str:
    text = (
        f"{NOUNS[score]} is {_percent(curve.middle)} where the evidence lies in the middle of the "
        f"record (30–70 %) and {_percent(curve.edge)} elsewhere, {_signed(curve.difference)} in "
        f"the middle ({_ends(curve)}; {_p(curve.difference_holm)}, corrected for two tests)"
    )
    bend = "" if isnan(curve.quadratic_p) else _p(curve.quadratic_holm)
    bent = f"the curve as a whole {'sags' if curve.quadratic > 0 else 'rises'} in the middle"
    if _significant(curve.difference_holm):
        worse = "worse in the middle" if curve.difference < 0 else "better in the middle, not lost"
        text += f": these answers are {worse}"
        if _significant(curve.quadratic_holm):
            text += f", and {bent} ({bend})"
        elif bend:
            text += f", though the bend of the curve alone is not significant ({bend})"
    elif _significant(curve.quadratic_holm):
        text += f"; that is not significant, but {bent} ({bend})"
    elif bend:
        text += f"; neither this nor a bend of the curve ({bend}) is significant"
    elif curve.cluster_count < FEWEST_CLUSTERS:
        text += "; that is not significant, and there are too few questions to test for a bend"
    else:
        text += "; that is not significant, and these answers allow no test of a bend"
    return text + "."


def _ends(curve: Curve) -> str:
    if isnan(curve.difference_low):
        return f"no interval: fewer than {FEWEST_REPORTED} questions on one side"
    return f"95 % interval: {_signed(curve.difference_low)} to {_signed(curve.difference_high)}"


def _gap(curve: Curve) -> str:
    kind = {10: "tenth", 5: "fifth"}[len(curve.n)]
    best, worst = _span(curve, curve.peak_bin), _span(curve, curve.trough_bin)
    text = (
        f"The best {kind} of the record ({best}) and the worst ({worst}) are "
        f"{_points(curve.gap)} apart; were position of no account, the best and the worst would "
        f"still be {_points(curve.null_gap)} apart on average ({_p(curve.gap_p)})"
    )
    if _significant(curve.gap_p):
        return text + ", so chance alone hardly explains the gap."
    return text + ", so the gap alone shows no curve."


def _caution(curve: Curve, found: bool) -> str:
    if found:
        return (
            "This is how these questions fell out: those asked about one part of the record may "
            "be harder for other reasons, and only moving the same fact (a needle run) can tell."
        )
    if isnan(curve.smallest):
        return "Not significant is not the same as no effect."
    seen = (
        "no difference at all, however large, would surely have been found"
        if curve.smallest >= 1.0
        else f"a difference of {_points(curve.smallest)} between middle and edge would have been "
        "found four times in five, a smaller one less often"
    )
    return (
        "Not significant is not the same as no effect: with "
        f"{_count(curve.cluster_count, 'question')}, {seen}."
    )


def _significant(p: float) -> bool:
    return not isnan(p) and p <= ALPHA


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


def _signed(share: float) -> str:
    """A difference in points and in words."""
    if isnan(share):
        return "unknown"
    if abs(share) < 0.0005:
        return "no different"
    return f"{_points(abs(share))} {'lower' if share < 0 else 'higher'}"


def _p(p: float) -> str:
    """A p value as it is printed; never as 0."""
    if p < 0.001:
        return "p < 0.001"
    return f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def _span(curve: Curve, bin: int) -> str:
    return f"{100 * curve.low[bin]:.0f}–{100 * curve.high[bin]:.0f} %"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
