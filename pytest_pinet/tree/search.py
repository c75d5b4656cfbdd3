"""Searches the commit that made a build slower, and keeps each measured commit, so that a killed search goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from pytest_pinet.execution.files import writing
from pytest_pinet.judge.bisection import GOOD, LAYOUT, Bisection
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.tree.sources import Commit

# Commits that touch the driver's folder are so many times as likely.
DRIVER_WEIGHT = 10.0
# Counts of exact boards move less than goodput with the layout of the code.
EXACT_LAYOUT = 0.02


@dataclass(frozen=True)
class SearchStep:
    """What was measured at once: values of commits in the order of their boots. ``why``: the verdict, or the skip.

    The first step has both ends, the ``figures`` that the bad end is slower in, and the ``driver`` of their NIC. A step
    with ``gated`` is the gate of this commit against its parent, with its ``verdict``.
    """

    values: tuple[tuple[str, float], ...] = ()
    skipped: str = ""
    why: str = ""
    boots: int = 0
    seconds: float = 0.0
    figures: tuple[str, ...] = ()
    driver: str = ""
    gated: str = ""
    verdict: Verdict | None = None


_STEP = TypeAdapter(SearchStep)


class SearchJournal:
    """A file with a line for each step. Raises ConfigError or OutputError if it cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def steps(self) -> Iterator[SearchStep]:
        """Yield the steps of earlier starts. A killed process can leave an incomplete last line."""
        with suppress(OSError):
            for line in self._path.read_bytes().splitlines():
                with suppress(ValueError):
                    yield _STEP.validate_json(line)

    def add(self, step: SearchStep) -> None:
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

    ``measure`` boots the known-good end (GOOD) or a commit once; it returns the step. ``ends`` gates both ends, and
    ``confirm`` a commit against its parent. ``in_driver`` returns whether a file belongs to a driver. ``show`` gets the
    step to come, in words. ``layout`` is the scale for ``Bisection``.
    """

    commits: Sequence[Commit]
    journal: SearchJournal
    ends: Callable[[], SearchStep]
    measure: Callable[[str, SearchStep], SearchStep]
    confirm: Callable[[Commit, SearchStep], SearchStep] | None = None
    in_driver: Callable[[str, str], bool] = lambda _driver, _file: False
    show: Callable[[str], None] = lambda _: None
    layout: float = LAYOUT
    steps: list[SearchStep] = field(default_factory=list)

    def run(self) -> Bisection | None:
        """Measure until a commit is certain, or nothing tells more. None: the gate of both ends finds no difference.

        If the gate of this commit against its parent does not call it slower, its boots count as others do, and the
        search goes on unless the commit is still certain. Steps of earlier starts are not made again. Raises the errors
        of ``ends``, ``measure`` and ``confirm``.
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
        while (made := self._next(found, by_id)) is not None:
            self._add(made)
            _tell(found, made)
        return found

    def gate_of(self, commit: str) -> SearchStep | None:
        """Return the latest gate of this commit against its parent."""
        return next((step for step in reversed(self.steps) if step.gated == commit), None)

    def _next(self, found: Bisection, by_id: Mapping[str, Commit]) -> SearchStep | None:
        """Make the next step; None at the end."""
        if self.steps[-1].verdict is Verdict.FAIL:
            return None
        best, share = found.best()
        if found.is_certain:
            is_open = len(best) == 1 and self.gate_of(best[0]) is None
            return self.confirm(by_id[best[0]], self.steps[0]) if self.confirm and is_open else None
        if (commit := found.next()) is None:
            return None
        what = "the good commit again" if commit == GOOD else str(by_id[commit])
        self.show(
            f"step {len(self.steps) + 1}: {what}; best candidate {by_id[best[0]]} {share:.0%}; "
            f"about {found.boots_left()} boots left"
        )
        return self.measure(commit, self.steps[0])

    def _add(self, step: SearchStep) -> None:
        self.journal.add(step)
        self.steps.append(step)


def _tell(found: Bisection, step: SearchStep) -> None:
    for commit, value in step.values:
        found.add(commit, value)
    if step.skipped:
        found.skip(step.skipped)
