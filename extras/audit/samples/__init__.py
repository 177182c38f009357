"""Logs of other systems as samples, one file a format; the registry scans this folder."""

from __future__ import annotations

from midchart.core.registry import Registry
from midchart.extras.audit.samples.sample import SampleFormat

SAMPLE_FORMATS: Registry[SampleFormat] = Registry("sample_format", "midchart.extras.audit.samples")
