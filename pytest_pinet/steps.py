"""What is being done, step by step, for whoever records it; costs nothing where nobody does.

``with doing("lease pi4b-1"):`` stands where the thing is done; a report shows the tree of steps with their times.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

# A login polls, and a long list of equal lines tells nothing.
MOST_BENEATH = 60


@dataclass
class Step:
    """One step: seconds since the epoch (``ended`` is 0 while it lasts), what ended it, and the steps beneath it.

    ``left_out`` steps beneath it are not kept.
    """

    title: str
    started: float
    ended: float = 0.0
    error: str = ""
    steps: list[Step] = field(default_factory=list)
    left_out: int = 0


class Recorder:
    """Keeps the steps of this process's main thread from ``start`` to ``stop``; one at a time."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._open: list[Step] = []

    def start(self) -> None:
        global _recorder
        _recorder = self

    def stop(self) -> list[Step]:
        """The steps; those that still last end now."""
        global _recorder
        if _recorder is self:
            _recorder = None
        while self._open:
            self.end(self._open[-1])
        return self.steps

    def begin(self, title: str) -> Step:
        step = Step(title, time.time())
        above = self._open[-1] if self._open else None
        if above is None:
            self.steps.append(step)
        elif len(above.steps) < MOST_BENEATH:
            above.steps.append(step)
        else:
            above.left_out += 1
        self._open.append(step)
        return step

    def end(self, step: Step, error: str = "") -> None:
        """End a step, and all beneath it that nobody ended."""
        while any(one is step for one in self._open):
            last = self._open.pop()
            last.ended = time.time()
            last.error = last.error or error


_recorder: Recorder | None = None


def current() -> Recorder | None:
    """Who records now; only the main thread is recorded, whose steps follow each other."""
    return _recorder if threading.current_thread() is threading.main_thread() else None


@contextmanager
def doing(title: str) -> Iterator[None]:
    """Record what is done inside as one step."""
    recorder = current()
    if recorder is None:
        yield
        return
    step = recorder.begin(title)
    try:
        yield
    except BaseException as error:
        recorder.end(step, (str(error) or type(error).__name__).partition("\n")[0])
        raise
    recorder.end(step)
