"""One patient: what to look at, the timeline, scores, evidence, what was kept and what was read."""
