"""The end of a run that is broken off, by Ctrl-C or an error: workers leave the lab as they found it before they end.

xdist gives a worker five seconds and kills it after ten. To take a build back, to restore switch ports and to power
nodes off may take longer, and a worker in mid-traffic may not know that the run is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_pinet.lab.deadline import Deadline

STOP_FILE = "stop"
# What a board may take to boot, and then to take the build back and be powered off.
UNDO_S = 180.0
# Whoever waits for less need not be told.
QUIET_S = 1.0


def stop_when_told(folder: Path) -> Callable[[], None]:
    """In a worker: what raises KeyboardInterrupt once the controller has broken off the run of this folder."""
    told = folder / STOP_FILE

    def look() -> None:
        if told.exists():
            raise KeyboardInterrupt("the run was broken off")

    return look


def end_workers(workers: Sequence[Any], folder: Path, on_wait: Callable[[str], None]) -> None:
    """In the controller: have workers stop, and wait until they have left the lab, but not for ever.

    Ctrl-C ends the wait. Raises OSError where they cannot be told.
    """
    told = folder / STOP_FILE
    told.touch()
    for worker in workers:
        if hasattr(worker, "channel"):
            worker.shutdown()

    def over() -> bool:
        return all(_has_ended(worker) for worker in workers)

    with suppress(KeyboardInterrupt):
        if not Deadline(QUIET_S).wait_until(over):
            on_wait(f"{_names(workers)} leave the lab as they found it (at most {UNDO_S:.0f} s)")
            Deadline(UNDO_S).wait_until(over)
    if over():
        told.unlink(missing_ok=True)


def _has_ended(worker: Any) -> bool:
    """Whether a worker has said all that it has to say, or can say nothing any more."""
    # A channel that the worker has closed, or one whose worker is gone.
    silent = not hasattr(worker, "channel") or worker.channel.isclosed() or not worker.gateway.hasreceiver()
    return silent or hasattr(worker, "workeroutput")


def _names(workers: Sequence[Any]) -> str:
    names = [str(worker.workerinput["workerid"]) for worker in workers if not _has_ended(worker)]
    return f"{'worker' if len(names) == 1 else 'workers'} {', '.join(names)}"
