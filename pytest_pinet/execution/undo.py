"""Undo steps: each is registered on the line after its change. All of them run, in reverse order, even if one fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from pytest_pinet.errors import LinkError, first_line
from pytest_pinet.execution import trace

T = TypeVar("T")
R = TypeVar("R")


def at_once(call: Callable[[T], R], targets: Sequence[T]) -> list[R]:
    """Call ``call`` for all targets at the same time, one thread each; return what the calls return, in order.

    Raises the first error when all calls have ended. An interrupt of this thread ends no call.
    """
    with ThreadPoolExecutor(max(1, len(targets)), thread_name_prefix="pinet-at-once") as pool:
        return list(pool.map(call, targets))


@dataclass(frozen=True, eq=False)
class UndoStep:
    """An undo step. ``node`` is the only node that it touches; None means that it touches all nodes."""

    what: str
    run: Callable[[], object]
    node: str | None

    def undone(self, lost: Collection[str]) -> tuple[str, list[trace.Step]]:
        """Run the step, unless it touches a node in ``lost``.

        Return a sentence if the change is not undone, and the steps of the trace.
        """
        theirs = sorted(lost) if self.node is None else [self.node] if self.node in lost else []
        if theirs:
            return f"did not undo {self.what}: this run no longer holds {' and '.join(theirs)}", []
        with trace.apart() as steps:
            try:
                self.run()
            except Exception as error:
                return f"could not undo {self.what}: {first_line(error)}", steps
        return "", steps


@contextmanager
def undone(act: str) -> Iterator[UndoStack]:
    """Yield a stack that is closed at the end, also after an error, which gets notes of the steps that failed.

    Raises LinkError if only steps failed; ``act`` says what to do then.
    """
    undo = UndoStack()
    try:
        yield undo
    except BaseException as error:
        for failure in undo.close():
            error.add_note(failure)
        raise
    if failures := undo.close():
        raise LinkError("; ".join(failures), act)


class UndoStack:
    """The undo steps of one piece of work. ``close`` runs them and returns a sentence for each step that failed."""

    def __init__(self) -> None:
        self._steps: list[UndoStep] = []

    def add(self, what: str, step: Callable[[], object], node: str | None = None) -> None:
        """Register the step that undoes a change; ``what`` names the change (``address 198.18.0.1/30 on pi4b-1 eth0``).

        ``node`` is the only node that the step touches; None means that it touches all nodes.
        """
        self._steps.append(UndoStep(what, step, node))

    def at_once(self, step: Callable[[T, UndoStack], R], targets: Sequence[T]) -> list[R]:
        """Call ``step(target, undo)`` for all targets at the same time; return and raise as ``at_once``.

        The undo steps are run as if the calls had been made in order.
        """
        stacks = [UndoStack() for _ in targets]
        try:
            return at_once(lambda one: step(*one), [*zip(targets, stacks, strict=True)])
        finally:
            for stack in stacks:
                self._steps += stack._steps

    def close(self, lost: Collection[str] = ()) -> list[str]:
        """Run all steps, the last one first. A step that touches only one node does not wait for the other nodes.

        Return a sentence for each failed step, which the caller must report loudly.

        Steps that touch a node in ``lost`` are not run, since another user may own this node now.
        """
        failures: list[str] = []
        while self._steps:
            batch = [self._steps.pop()]
            while batch[0].node is not None and self._steps and self._steps[-1].node is not None:
                batch.append(self._steps.pop())
            if batch[0].node is None:
                found = {batch[0]: batch[0].undone(lost)}
            else:
                own = [[one for one in batch if one.node == node] for node in {one.node for one in batch}]
                # Also of one node: an interrupt ends no call, so no step is lost.
                done = at_once(lambda steps: [one.undone(lost) for one in steps], own)
                found = dict(zip(chain.from_iterable(own), chain.from_iterable(done), strict=True))
            for one in batch:
                failure, steps = found[one]
                trace.add(steps)
                failures += [failure] if failure else []
        return failures
