"""Open samples that nobody of the project wrote; tests that read them are skipped without them."""

from pathlib import Path

SAMPLES = Path(__file__).parents[3] / "shared" / "data"
