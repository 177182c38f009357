"""Claude: the paper's judge, shown the question, the evidence and the answer.

Text leaves this machine for it, so the cohort's data-use tag and the run's spec must both allow it
(:mod:`midchart.core.egress`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from midchart.core.client.claude import ClaudeEngine, call_log
from midchart.core.client.requests import ModelService
from midchart.core.egress import CLOSED, EgressCheck
from midchart.core.interfaces import Watch, ignore
from midchart.core.judges import JUDGES
from midchart.core.judges.language_model import LanguageJudge
from midchart.core.judges.model_options import ClaudeOptions
from midchart.core.protocol import Protocol


@JUDGES.register("claude")
class Claude(LanguageJudge):
    """Claude with the sighted prompt; ``model = "claude-sonnet-4-6"`` is a common second judge."""

    name, title = "claude", "Claude (sighted)"
    options_model = ClaudeOptions

    def __init__(
        self,
        protocol: Protocol,
        egress: EgressCheck = CLOSED,
        folder: Path | None = None,
        label: str = "claude",
        watch: Watch = ignore,
        **options: Any,
    ) -> None:
        self.log = call_log(folder, label)
        super().__init__(protocol, egress, watch, **options)

    def make_engine(self) -> ModelService:
        """The Claude API, within the budget noted in the run's folder."""
        return ClaudeEngine(
            self.options, self.options.max_tokens, self.egress, self.log, self.watch
        )
