"""Forecast: models that differ only in their attention, compared on laboratory forecasts."""

from midchart.pages.ui import navigation, state
from midchart.pages.ui.forecast.attention import OFFER, draw, open_variant
from midchart.pages.ui.results import kit

navigation.page("Forecast")


def extras(shown: kit.Shown) -> list[kit.Extra]:
    """The attention map, of a run whose models are on this machine."""
    return [] if shown.run["imported"] else [kit.Extra("map", "What did it attend to?", draw)]


if state.runs((OFFER.kind,)):
    kit.page((OFFER.kind,), "forecast", extras, open_variant)
else:
    OFFER.empty()
