"""A run on Ray: workers execute its shards, and the run's own process writes all rows.

That process (:mod:`core.runs.worker`; to Ray, the driver) holds the run's lock, so resume, cancel,
status and tables work as without a cluster. A shard whose worker died goes to another worker with
the rows that exist: nothing is lost or done twice. Ray is imported only for such a run.
"""
