"""What a laboratory would find in this patient on this day: trends that follow the facts.

Kidney function falls with the years of CKD; potassium rises with renin-angiotensin drugs and
spironolactone; A1c answers to each glucose-lowering drug over about three months; INR follows
warfarin, TSH levothyroxine, LDL statins, inflammation DMARDs; acute illnesses push values and let
go again. Shapes are rough but in the direction and the size a clinician expects.
"""

from __future__ import annotations

import math
from datetime import datetime

import numpy as np

from midchart.extras.lab.synthetic.medicine import analytes, drugs, group_effects
from midchart.extras.lab.synthetic.patient import Patient


def draw_base(rng: np.random.Generator, p: Patient) -> None:
    """Fill ``p.base``: each analyte's value in this person when nothing is wrong."""
    for key, a in analytes().items():
        p.base[key] = a.base + a.spread * float(np.clip(rng.normal(), -1.8, 1.8))
    if p.sex == "MALE":
        p.base["hgb"] += 1.1
        p.base["wt"] += 9
    p.base["wt"] += 9 if "t2dm" in p.diseases else 0
    p.base["egfr"] = max(55.0, p.base["egfr"] - 0.5 * max(p.age(p.first) - 40, 0))
    p.base["ckd_fall"] = float(rng.uniform(2.2, 5.2))
    p.base["ckd_from"] = float(rng.uniform(50, 60))
    p.base["a1c_untreated"] = float(rng.uniform(8.4, 10.4))
    p.base["a1c_drift"] = float(rng.uniform(0.08, 0.3))
    p.base["tsh_untreated"] = float(rng.uniform(9, 32))


def effect(p: Patient, group: str, when: datetime, lag: float) -> float:
    """Share in force, 0 to about 1.3, of the drugs of ``group`` at ``when``.

    It rises with time constant ``lag`` days after a start, falls the same way after a stop, and
    is larger at higher dose steps.
    """
    total = 0.0
    for course in p.courses:
        if drugs()[course.drug].group != group:
            continue
        top = max(len(drugs()[course.drug].steps) - 1, 1)
        level, before, since = 0.0, 0.0, course.steps[0].when
        for step in course.steps:
            if step.when > when:
                break
            level = before + (level - before) * (1 - math.exp(-(step.when - since).days / lag))
            level, before = (0.0 if step.action == "stop" else 0.7 + 0.6 * step.dose / top), level
            since = step.when
        days = (when - since).total_seconds() / 86400
        if days < 0:
            continue
        total += before + (level - before) * (1 - math.exp(-days / lag))
    return min(total, 1.4)


def _adverse(p: Patient, key: str, when: datetime) -> float:
    """Shift of ``key`` by the side effect for which a drug is about to be stopped."""
    total = 0.0
    for course in p.courses:
        stop = course.steps[-1]
        days = (when - stop.when).total_seconds() / 86400
        if stop.cause is None or not -15 < days < 20:
            continue
        fade = 1.0 if days < 0.2 else math.exp(-days / 5)
        total += stop.cause.shifts.get(key, 0.0) * fade
    return total


def _sufficiency(p: Patient, group: str, when: datetime, lag: float) -> float:
    """Effect of ``group`` as a share of what the course's highest dose will give, 0 to 1.

    Doses are raised until they suffice, so the highest of a course is taken to be the right one
    and each lower one to fall short.
    """
    now = effect(p, group, when, lag)
    final = 0.0
    for course in p.courses:
        if drugs()[course.drug].group == group:
            top = max(len(drugs()[course.drug].steps) - 1, 1)
            final = max(final, *(0.7 + 0.6 * s.dose / top for s in course.steps))
    return min((now / final) ** 2, 1.0) if final else 0.0


def acute(p: Patient, key: str, when: datetime) -> float:
    """Shift of ``key`` by acute illnesses at ``when``: full at admission, fading by recovery."""
    total = _adverse(p, key, when)
    for episode in p.episodes:
        days = (when - episode.start).total_seconds() / 86400
        if days < -1 or days > 60:
            continue
        stay = max((episode.end - episode.start).total_seconds() / 86400, 0.5)
        fade = 1.0 if days < 0.4 else math.exp(-(days - 0.4) / (stay * 0.55 + 0.3))
        # Blood is made again over weeks, not days.
        slow = math.exp(-max(days, 0) / 18) if key == "hgb" else fade
        total += episode.kind.effects.get(key, 0.0) * episode.size * slow
    return total


def true_egfr(p: Patient, when: datetime) -> float:
    """Filtration without measurement noise."""
    value = p.base["egfr"] - 0.8 * max((when - p.first).days / 365.25, 0)
    if "ckd" in p.diseases:
        years = (when - p.diseases["ckd"]).days / 365.25
        slow = 0.65 if effect(p, "sglt2", when, 120) > 0.3 else 1.0
        if years > -2:
            # Decline starts silently before anyone codes the diagnosis.
            chronic = p.base["ckd_from"] - p.base["ckd_fall"] * slow * years
            value = min(value, max(chronic, 11.0))
    return max(value * (1 + max(acute(p, "egfr%", when), -0.8)), 5.0)


def creatinine(p: Patient, egfr: float, when: datetime) -> float:
    """Creatinine that gives ``egfr`` by the four-variable MDRD equation (Levey 2006)."""
    factor = 175 * max(p.age(when), 18) ** -0.203 * (0.742 if p.sex == "FEMALE" else 1.0)
    return (egfr / factor) ** (-1 / 1.154)


def _glycemia(p: Patient, when: datetime) -> float:
    if "t2dm" in p.diseases and p.diseases["t2dm"] <= when:
        years = (when - p.diseases["t2dm"]).days / 365.25
        value = p.base["a1c_untreated"] + p.base["a1c_drift"] * years
        for group, drop in group_effects("a1c_drop"):
            value -= drop * effect(p, group, when, 75)
        return max(value, 6.1)
    # Nobody is diagnosed out of the blue: sugars drift up over the years before.
    if "t2dm" in p.diseases:
        years = (p.diseases["t2dm"] - when).days / 365.25
        return max(p.base["a1c"], 6.4 - 0.25 * years)
    return p.base["a1c"]


def _mean(p: Patient, key: str, when: datetime) -> float:
    base = p.base[key]
    egfr = true_egfr(p, when)
    # Each analyte: its base, shifted by conditions and drugs.
    match key:
        case "egfr":
            return egfr
        case "cr":
            return creatinine(p, egfr, when)
        case "bun":
            return base + max(60 - egfr, 0) * 0.55 + 4 * effect(p, "loop", when, 5)
        case "k":
            shift = sum(size * effect(p, group, when, 6) for group, size in group_effects("k_rise"))
            return base + shift + max(45 - egfr, 0) * 0.016
        case "co2":
            return base - max(35 - egfr, 0) * 0.16 + effect(p, "loop", when, 5)
        case "na":
            low = 3.5 if p.has("cirrhosis", when) else 0
            return base - low - 2.5 * effect(p, "thiazide", when, 10)
        case "hgb":
            low = max(45 - egfr, 0) * 0.075 + (1.2 if p.has("cirrhosis", when) else 0)
            return base - low - (0.8 if p.has("ra", when) else 0)
        case "hct":
            return _mean(p, "hgb", when) * 2.98
        case "a1c":
            return _glycemia(p, when)
        case "glu":
            pregnant = 26.0 if _pregnant_at(p, when) else 0.0
            return max(28.7 * _glycemia(p, when) - 50, base - 4) + pregnant
        case "uacr":
            if p.has("ckd", when) or p.has("t2dm", when):
                soft = 1 - 0.35 * min(effect(p, "acei", when, 60) + effect(p, "arb", when, 60), 1)
                return (base + 20 + max(60 - egfr, 0) * 9) * soft
            return base
        case "inr":
            cirrhosis = 0.45 if p.has("cirrhosis", when) else 0
            return base + 1.45 * _sufficiency(p, "warfarin", when, 4) + cirrhosis
        case "tsh":
            if not p.has("hypothyroid", when):
                return base
            treated = _sufficiency(p, "thyroid", when, 20)
            return base + (p.base["tsh_untreated"] - base) * max(1 - treated, 0)
        case "ldl":
            factor = 1.0
            for group, share in group_effects("ldl_drop"):
                factor *= 1 - share * effect(p, group, when, 21)
            return base * factor
        case "plt":
            if p.has("cirrhosis", when) and (days := (when - p.diseases["cirrhosis"]).days) > 0:
                return max(118 - 4.5 * (days / 365.25), 48)
            return base + (40 if p.has("ra", when) and effect(p, "mtx", when, 40) < 0.3 else 0)
        case "bili":
            return base + (1.1 if p.has("cirrhosis", when) else 0)
        case "alb":
            low = 1.1 if p.has("cirrhosis", when) else 0
            return base - low - max(30 - egfr, 0) * 0.012
        case "alt" | "ast":
            liver = 18 if p.has("cirrhosis", when) else 0
            return base + liver + 9 * effect(p, "mtx", when, 60)
        case "bnp":
            heart = 1300 if p.has("hfref", when) else 0
            eased = 1 - 0.55 * min(effect(p, "loop", when, 20) + effect(p, "arb", when, 60), 1)
            return base + heart * eased + max(40 - egfr, 0) * 22
        case "crp" | "esr":
            if not p.has("ra", when):
                return base
            calm = effect(p, "mtx", when, 50) * 0.6 + effect(p, "biologic", when, 40) * 0.7
            return base + (34 if key == "crp" else 42) * max(1 - calm, 0.1)
        case "sbp" | "dbp":
            high = 26 if p.has("htn", when) else 0
            drop = sum(
                size * effect(p, group, when, 14) for group, size in group_effects("sbp_drop")
            )
            low = 14 if p.has("cirrhosis", when) or p.has("hfref", when) else 0
            treated = min(drop, high * 0.9 + 8)
            value = base + high - treated - low
            return value if key == "sbp" else base + (high - treated - low) * 0.45
        case "hr":
            return base + (10 if p.has("af", when) else 0) - 10 * effect(p, "beta", when, 6)
        case "spo2":
            return base - (3.2 if p.has("copd", when) else 0)
        case "wt":
            years = (when - p.first).days / 365.25
            gain = 9.0 if _pregnant_at(p, when) else 0.0
            return base + 0.25 * years - 4.5 * effect(p, "glp1", when, 150) + gain
        case "wbc":
            return base + 1.6 * effect(p, "steroid", when, 3) - 0.6 * effect(p, "mtx", when, 60)
        case _:
            return base


def delivered(p: Patient) -> datetime | None:
    """When the pregnancy of the record ended, if there was one."""
    for episode in p.episodes:
        if episode.kind.key == "delivery":
            return episode.end
    return None


def _pregnant_at(p: Patient, when: datetime) -> bool:
    """Whether ``when`` is in the pregnancy of the record."""
    end = delivered(p)
    return "gdm" in p.diseases and p.diseases["gdm"] <= when and (end is None or when < end)


def active(p: Patient, when: datetime) -> list[str]:
    """Long-term conditions at ``when``; a pregnancy that is over is none."""
    keys = [key for key in p.diseases if p.has(key, when)]
    return [key for key in keys if key != "gdm" or _pregnant_at(p, when)]


def measure(p: Patient, key: str, when: datetime, rng: np.random.Generator) -> float:
    """One measured value: the truth at ``when``, acute shifts, and the noise of one draw."""
    a = analytes()[key]
    value = _mean(p, key, when)
    if key not in ("egfr", "cr"):
        value += acute(p, key, when)
    if key == "hct":
        value += acute(p, "hgb", when) * 2.98
    scale = a.noise
    if key in ("bnp", "uacr", "crp", "trop", "tsh", "alt", "ast"):
        scale = max(a.noise, 0.12 * value)
    if key == "inr" and value > 1.5:
        scale = 0.35
    if key == "cr":
        scale = 0.03 * value
    if key == "hr" and p.has("af", when):
        scale = 10.0
    noisy = value + scale * float(np.clip(rng.normal(), -2.2, 2.2))
    if key == "spo2":
        noisy = min(noisy, 100.0)
    return min(max(noisy, a.low), a.high)
