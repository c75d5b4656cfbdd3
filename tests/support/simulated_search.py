"""A search over 32 commits with simulated boots: one loses 2 % of goodput in genet, three do not compile."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

from pytest_pinet.judge.bisection import GOOD
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.tree.search import Search, SearchJournal, SearchStep
from pytest_pinet.tree.sources import Commit

GENET = "drivers/net/ethernet/broadcom/genet/bcmgenet.c"
COMMITS = [
    Commit(
        f"{number:040x}", (f"{number - 1:040x}",), f"step {number}", "A. Developer", (GENET if number % 5 else "a.c",)
    )
    for number in range(1, 33)
]
CULPRIT, BROKEN = COMMITS[18], {COMMITS[7].id, COMMITS[15].id, COMMITS[24].id}
BAD = COMMITS[-1].id


def simulated_search(
    file: Path,
    boots: Callable[[str], None] = lambda _: None,
    noise: float = 0.004,
    verdict: Verdict = Verdict.FAIL,
    lucky: int = 0,
    **more: object,
) -> Search:
    """Return a search with simulated boots; the noise of a boot depends on its number alone.

    Gates against a parent end with this ``verdict``. So many boots of the culprit are ``lucky``: as fast as its parent.
    """
    made = [*SearchJournal(file).steps()]
    number = sum(len(step.values) for step in made)

    def boot(commit: str) -> tuple[str, float]:
        nonlocal number, lucky
        number += 1
        boots(commit)
        is_lucky = commit == CULPRIT.id and lucky > 0
        lucky -= is_lucky
        lost = math.log(0.98) if commit >= CULPRIT.id and not is_lucky else 0.0
        return commit, math.log(941e6) + lost + random.Random(number).gauss(0, noise)

    def ends() -> SearchStep:
        values = tuple(boot(end) for end in (GOOD, BAD, BAD, GOOD, BAD, GOOD))
        return SearchStep(values, boots=6, figures=("pi4b:onboard/pair/tcp-P1-rx rx",), driver="bcmgenet")

    def measure(commit: str, first: SearchStep) -> SearchStep:
        assert first.driver == "bcmgenet"
        if commit in BROKEN:
            return SearchStep(skipped=commit, why="does not compile")
        return SearchStep((boot(commit),), boots=1)

    def confirm(culprit: Commit, _first: SearchStep) -> SearchStep:
        (parent,) = culprit.parents
        values = tuple(boot(one) for one in (parent, culprit.id, culprit.id, parent))
        return SearchStep(values, boots=4, gated=culprit.id, verdict=verdict)

    return Search(COMMITS, SearchJournal(file), ends, measure, confirm, **more)  # type: ignore[arg-type]
