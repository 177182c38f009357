"""Patients as columns: an event store on disk, its labels, and the events before a prediction time.

Tens of millions of coded events do not go through :class:`midchart.core.types.Record`; they are
read once into sorted columns (:mod:`midchart.core.sequences.build`), opened as memory maps
(:mod:`midchart.core.sequences.store`), and cut into the last events before each label at once
(:mod:`midchart.core.sequences.store`).
"""
