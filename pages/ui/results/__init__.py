"""The kit of pages that show a run's results, whatever its kind."""
