"""The steps of a run, recorded with their times if a recorder is active; without one they cost almost nothing.

Code wraps an action in ``with doing("lease pi4b-1"):``. A report shows the tree of steps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

# A login polls; more lines of the same kind are of no use to a reader.
MOST_BENEATH = 60


@dataclass
class Step:
    """One step of a run.

    ``started`` and ``ended`` are seconds since the epoch; ``ended`` is 0 while the step lasts. ``error`` is the error
    that ended the step. ``steps`` are its sub-steps; ``left_out`` counts the sub-steps that were not kept.
    """

    title: str
    started: float
    ended: float = 0.0
    error: str = ""
    steps: list[Step] = field(default_factory=list)
    left_out: int = 0

    def add(self, step: Step) -> None:
        """Keep a sub-step, or count it if there are too many."""
        if len(self.steps) < MOST_BENEATH:
            self.steps.append(step)
        else:
            self.left_out += 1

    def end(self, error: str) -> None:
        """End the step. The first error stays."""
        self.ended = time.time()
        self.error = self.error or error


class Recorder:
    """Records the steps of the main thread from ``start`` to ``stop``. Only one recorder is active at a time."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._open: list[Step] = []

    def start(self) -> None:
        global _recorder
        _recorder = self

    def stop(self) -> list[Step]:
        """Return the steps; steps that are still open end now."""
        global _recorder
        if _recorder is self:
            _recorder = None
        while self._open:
            self.end(self._open[-1])
        return self.steps

    def begin(self, title: str) -> Step:
        self.add(step := Step(title, time.time()))
        self._open.append(step)
        return step

    def add(self, step: Step) -> None:
        if self._open:
            self._open[-1].add(step)
        else:
            self.steps.append(step)

    def end(self, step: Step, error: str = "") -> None:
        """End a step and all of its sub-steps that are still open."""
        while any(one is step for one in self._open):
            self._open.pop().end(error)


_recorder: Recorder | None = None
# Threads begin without a value.
_of_thread: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


def current() -> Recorder | None:
    """Return the recorder of this thread; threads have one only within ``apart``, since their steps would overlap."""
    return _of_thread.get() or (_recorder if threading.current_thread() is threading.main_thread() else None)


@contextmanager
def apart() -> Iterator[list[Step]]:
    """Record the steps of the body, in any thread, as a list of their own; see ``add``."""
    own = Recorder()
    token = _of_thread.set(own)
    try:
        yield own.steps
    finally:
        _of_thread.reset(token)


def add(steps: Iterable[Step]) -> None:
    """Add steps that were recorded apart to the step that is open now."""
    if (recorder := current()) is not None:
        for step in steps:
            recorder.add(step)


@contextmanager
def doing(title: str) -> Iterator[None]:
    """Record the body of the ``with`` statement as one step."""
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
