"""The simulated half year: every planted change is found at the right build, and there are no false findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.history.differences import release_of
from pytest_pinet.history.history import open_history
from tests.support.half_year_history import DRIFT, NOISY, REGRESSIONS, RUNS, half_year, keep, kernel_of


@pytest.mark.parametrize(
    "seed", [1, 2, pytest.param(101, marks=pytest.mark.slow), pytest.param(102, marks=pytest.mark.slow)]
)
def test_planted_changes_are_named_at_their_builds_and_none_is_invented(tmp_path: Path, seed: int) -> None:
    url = str(tmp_path / "history.db")
    keep(half_year(seed), url)
    with open_history(url) as history:
        runs = [run.id for run in history.runs(RUNS)]
        trends = [history.trend(figure.id) for figure in history.figures() if figure.direction]
    assert len(runs) == RUNS
    assert len(trends) == 24
    steps = {
        (trend.figure, runs.index(change.run), release_of(change.build_after.get("uname")))
        for trend in trends
        for change in trend.changes
        if not change.gradual
    }
    assert steps == {(planted.figure, planted.at, planted.kernel) for planted in REGRESSIONS}
    for trend in trends:
        for change in trend.changes:
            if not change.gradual:
                (planted,) = (one for one in REGRESSIONS if one.figure == trend.figure)
                assert release_of(change.build_before.get("uname")) == kernel_of(planted.at - 1)
                assert change.relative == pytest.approx(planted.size, abs=0.01)
                assert change.differs == (f"kernel {kernel_of(planted.at - 1)} -> {planted.kernel}",)
    (drifting,) = (trend for trend in trends if any(change.gradual for change in trend.changes))
    assert drifting.figure == DRIFT[0]
    (drift,) = drifting.changes
    assert drift.relative == pytest.approx(DRIFT[3], abs=0.015)
    (noisy,) = (trend for trend in trends if trend.figure == NOISY[0])
    assert noisy.changes == ()
