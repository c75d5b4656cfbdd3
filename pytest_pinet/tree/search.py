"""Searches the commit that made a build slower, and keeps each measured commit, so that a killed search goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from pytest_pinet.execution.files import writing
from pytest_pinet.judge.bisection import GOOD, LAYOUT, Bisection
from pytest_pinet.tree.sources import Commit

# Commits that touch the driver's folder are so many times as likely.
DRIVER_WEIGHT = 10.0
# Counts of exact boards move less than goodput with the layout of the code.
EXACT_LAYOUT = 0.02


@dataclass(frozen=True)
class Step:
    """What was measured at once: the values of commits in the order of their boots, or why a commit was skipped.

    The first step has both ends, the ``figures`` that the bad end is slower in, and the ``driver`` of their NIC.
    """

    values: tuple[tuple[str, float], ...] = ()
    skipped: str = ""
    why: str = ""
    boots: int = 0
    seconds: float = 0.0
    figures: tuple[str, ...] = ()
    driver: str = ""


_STEP = TypeAdapter(Step)


class Journal:
    """A file with a line for each step. Raises ConfigError or OutputError if it cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def steps(self) -> Iterator[Step]:
        """Yield the steps of earlier starts. A killed process can leave an incomplete last line."""
        with suppress(OSError):
            for line in self._path.read_bytes().splitlines():
                with suppress(ValueError):
                    yield _STEP.validate_json(line)

    def add(self, step: Step) -> None:
        """Write a step to the disk."""
        with writing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                # An incomplete line of a killed process ends here.
                file.write(b"\n" * (file.tell() > 0) + _STEP.dump_json(step))
                file.flush()
                os.fsync(file.fileno())


@dataclass
class Search:
    """A search among ``commits``, each behind its parents.

    ``measure`` boots the known-good end (GOOD) or a commit once; it returns the step. ``ends`` gates both ends.
    ``in_driver`` returns whether a file belongs to a driver. ``show`` gets the step to come, in words. ``layout`` is
    that of ``Bisection``.
    """

    commits: Sequence[Commit]
    journal: Journal
    ends: Callable[[], Step]
    measure: Callable[[str, Step], Step]
    in_driver: Callable[[str, str], bool] = lambda _driver, _file: False
    show: Callable[[str], None] = lambda _: None
    layout: float = LAYOUT
    steps: list[Step] = field(default_factory=list)

    def run(self) -> Bisection | None:
        """Measure until a commit is certain, or nothing tells more. None: the gate of both ends finds no difference.

        Steps of earlier starts are not made again. Raises the errors of ``ends`` and ``measure``.
        """
        self.steps = list(self.journal.steps())
        if not self.steps:
            self.show("gating the bad commit against the good one")
            ends = self.ends()
            if not ends.figures:
                return None
            self._add(ends)
        first = self.steps[0]
        own = [one.id for one in self.commits if any(self.in_driver(first.driver, name) for name in one.files)]
        weights = dict.fromkeys(own, DRIVER_WEIGHT)
        found = Bisection({one.id: one.parents for one in self.commits}, weights, self.layout)
        for step in self.steps:
            _tell(found, step)
        by_id = {one.id: one for one in self.commits}
        while not found.is_certain and (commit := found.next()) is not None:
            what = "the good commit again" if commit == GOOD else str(by_id[commit])
            best, share = found.best()
            self.show(
                f"step {len(self.steps) + 1}: {what}; best candidate {by_id[best[0]]} {share:.0%}; "
                f"about {found.boots_left()} boots left"
            )
            self._add(self.measure(commit, first))
            _tell(found, self.steps[-1])
        return found

    def _add(self, step: Step) -> None:
        self.journal.add(step)
        self.steps.append(step)


def _tell(found: Bisection, step: Step) -> None:
    for commit, value in step.values:
        found.add(commit, value)
    if step.skipped:
        found.skip(step.skipped)
