"""Ends the workers of an interrupted run (Ctrl-C or an error): each worker restores the lab before it ends.

xdist waits five seconds for a worker and kills it after ten. Removing a build, restoring switch ports and powering off
nodes can take longer, and a worker in mid-traffic might not know that the run is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from pytest_pinet.execution.deadline import Deadline

STOP_FILE = "stop"
# Time for a board to boot, and then to remove the build and power off.
UNDO_S = 180.0
# A wait shorter than this is not reported.
QUIET_S = 1.0


class _Channel(Protocol):
    def isclosed(self) -> bool: ...


class _Gateway(Protocol):
    def hasreceiver(self) -> bool: ...


class XdistWorker(Protocol):
    """A worker as xdist's controller sees it (``WorkerController``). A worker that did not start has no ``channel``."""

    workerinput: dict[str, str]
    channel: _Channel
    gateway: _Gateway

    def shutdown(self) -> None: ...


def stop_on_request(folder: Path) -> Callable[[], None]:
    """Return, in a worker, a function that raises KeyboardInterrupt once the controller has interrupted this run."""
    stop_file = folder / STOP_FILE

    def look() -> None:
        if stop_file.exists():
            raise KeyboardInterrupt("the run was interrupted")

    return look


def end_workers(workers: Sequence[XdistWorker], folder: Path, on_wait: Callable[[str], None]) -> None:
    """Stop the workers, from the controller, and wait until they have restored the lab, at most UNDO_S.

    Ctrl-C ends the wait. Raises OSError if the stop file cannot be written.
    """
    stop_file = folder / STOP_FILE
    stop_file.touch()
    for worker in workers:
        if hasattr(worker, "channel"):
            worker.shutdown()

    def over() -> bool:
        return all(_has_ended(worker) for worker in workers)

    with suppress(KeyboardInterrupt):
        if not Deadline(QUIET_S).wait_until(over):
            on_wait(f"waiting until {_names(workers)} restored the lab (at most {UNDO_S:.0f} s)")
            Deadline(UNDO_S).wait_until(over)
    if over():
        stop_file.unlink(missing_ok=True)


def _has_ended(worker: XdistWorker) -> bool:
    """Return whether a worker has sent its last message, or can send none."""
    # The worker has closed its channel, or the worker is gone.
    silent = not hasattr(worker, "channel") or worker.channel.isclosed() or not worker.gateway.hasreceiver()
    return silent or hasattr(worker, "workeroutput")


def _names(workers: Sequence[XdistWorker]) -> str:
    names = [str(worker.workerinput["workerid"]) for worker in workers if not _has_ended(worker)]
    return f"{'worker' if len(names) == 1 else 'workers'} {', '.join(names)} {'has' if len(names) == 1 else 'have'}"
