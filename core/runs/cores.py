"""Workers of a run in processes of this machine, one for each core that the run may use."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import connection
from multiprocessing.connection import Connection

from midchart.core import config as settings
from midchart.core.runs.shards import Message, Rows, ShardWorker, WorkerDied


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def serve(run: str, sharing: int, pipe: Connection) -> None:
    """A worker's process: its report, then the messages of each batch, None after the last.

    Ends when the run's own process closes the pipe, or itself.
    """
    settings.one_thread()  # as every core has a worker
    threading.Thread(target=_end_with_parent, daemon=True).start()
    worker = ShardWorker(run, sharing)
    try:
        pipe.send(worker.ready())
        while True:
            shards, there = pipe.recv()
            for messages in worker.work(shards, there):
                pipe.send(messages)
            pipe.send(None)
    except (EOFError, BrokenPipeError):  # no more batches, or nobody who takes rows
        return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class CoreWorker:
    """A worker's process and the pipe to it."""

    def __init__(self, run: str, sharing: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, far_end = context.Pipe()
        # No daemon, which could start no processes for a training on several devices.
        self._process = context.Process(target=serve, args=(run, sharing, far_end), name="worker")
        self._process.start()
        far_end.close()

    def begin(self, shards: Sequence[str], there: Rows) -> None:
        """Give it a batch."""
        try:
            self.pipe.send((shards, there))
        except (BrokenPipeError, ConnectionResetError):
            return  # it died, which the next receive says

    def receive(self) -> Mapping[str, str] | Sequence[Message] | None:
        """Its report, messages of its batch, or None at the batch's end; raises WorkerDied."""
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise WorkerDied from None

    def kill(self) -> None:
        """End it."""
        self._process.kill()
        self._process.join()
        self.pipe.close()


class Cores:
    """Starts a worker for each core, at most ``most`` (None: any number)."""

    where = "this machine"

    def __init__(self, most: int | None = None) -> None:
        self._room = min(cores(), most or cores())

    def room(self) -> int:
        """Number of workers."""
        return self._room

    def worker(self, run: str) -> CoreWorker:
        """A new worker."""
        return CoreWorker(run, self._room)

    def ready(self, workers: Sequence[CoreWorker], patience_s: float) -> list[CoreWorker]:
        """Workers that have sent something or died, awaited for so long."""
        sent = connection.wait([worker.pipe for worker in workers], patience_s)
        return [worker for worker in workers if worker.pipe in sent]
