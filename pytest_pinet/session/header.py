"""The lines above the tests of a run that measures: lab, profile, baseline, and about how long the run takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from pytest_pinet.config.reference_data import ReferenceData
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.judge.change import KINDS_APART, LEAST_BOOTS, OBVIOUS, least_by_chance
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.sequential import ERROR_RATE
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.report.text_wrap import wrap
from pytest_pinet.scheduling.plan import Estimates
from pytest_pinet.session.option_table import ACCEPTED, RUNNING
from pytest_pinet.session.parametrizer import case_of


class RunHeader:
    """Registered as a plugin. With workers, the controller prints the lines, which it knows once they have collected.

    ``profile_of`` returns the profile of a test. ``runs`` returns the folder of the run folders.
    """

    def __init__(
        self,
        config: pytest.Config,
        lab: LabOfFile,
        references: ReferenceData,
        profile_of: Callable[[pytest.Item], Profile],
        runs: Callable[[], Path],
    ) -> None:
        self._config = config
        self._lab = lab
        self._references = references
        self._profile_of = profile_of
        self._runs = runs

    def pytest_report_collectionfinish(self, items: Sequence[pytest.Item]) -> list[str]:
        """Print the lines if a test will measure."""
        if self._config.get_verbosity() < 0 or not any(item.get_closest_marker("pinet") for item in items):
            return []
        cases = [(item, case.combination.identity) for item in items if (case := case_of(item)) is not None]
        if not cases:
            return self._of_lab()
        estimates = Estimates.of_earlier_runs(self._runs())
        seconds = sum(estimates[item.nodeid].total_s for item, _ in cases)
        profiles = dict.fromkeys(self._profile_of(item).name for item, _ in cases)
        return self._lines(profiles, self._baseline([combination for _, combination in cases]), about(seconds))

    def of_workers(self, profile: Profile, seconds: float, workers: int) -> list[str]:
        """Return the lines of the controller, which does not know the combinations and markers of the tests."""
        if self._config.get_verbosity() < 0:
            return []
        shared = f"{about(seconds)} of work for {workers} worker{'s' if workers != 1 else ''}"
        return self._lines([profile.name], self._baseline(None), shared)

    def _of_lab(self, how_long: str = "") -> list[str]:
        lab = self._lab
        sizes = f"{len(lab.nodes)} nodes, {len(lab.interfaces())} interfaces"
        return wrap(f"pinet: lab {lab.name} ({sizes}){how_long and f'; {how_long}'}", hanging="  ")

    def _lines(self, profiles: Iterable[str], baseline: str, how_long: str) -> list[str]:
        turns = " in each turn" if self._config.getoption("--pinet-build") else ""
        names = list(profiles)
        profile = f"profile{'s' if len(names) > 1 else ''} {', '.join(names)}"
        return [*self._of_lab(how_long + turns), *wrap(f"pinet: {profile}; {baseline}", hanging="  ")]

    def _baseline(self, combinations: Sequence[CombinationId] | None) -> str:
        """Return what the values are compared with. None: the combinations of the tests are not known."""
        chosen = self._config.getoption("--pinet-against") or RUNNING
        if self._config.getoption("--pinet-build") and chosen != ACCEPTED:
            name = "running, the own build of each board" if chosen == RUNNING else Path(chosen).name
            return f"known-good build {name}{self._turns(combinations)}"
        known = self._references.baselines
        if not known:
            return "no accepted baseline"
        latest = max(one.date for one in known.values())
        if combinations is None:
            return f"{len(known)} accepted baseline{'s' if len(known) != 1 else ''} ({latest})"
        own = {name.rpartition("/")[0]: one for name, one in known.items()}
        there = dict.fromkeys(map(str, combinations))
        found = [own[name] for name in there if name in own]
        if not found:
            return "no accepted baseline for these combinations"
        latest = max(one.date for one in found)
        return f"accepted baselines for {len(found)} of {len(there)} combinations ({latest})"

    def _turns(self, combinations: Sequence[CombinationId] | None) -> str:
        """Return how many turns a comparison of builds takes if boots are not calibrated, and what needs fewer."""
        if self._references.is_calibrated(combinations):
            return ""
        least, most = (least_by_chance(0, ERROR_RATE, ways) for ways in (1, 2))
        return (
            f"; without a calibration of boots, a verdict takes {LEAST_BOOTS} turns at a tolerance of "
            f"{KINDS_APART * 100:g} % or more, {least} or {most} at a smaller one ({LEAST_BOOTS} if the build is "
            f"more than {-OBVIOUS * 100:g} % slower, or after `pinet calibrate --boots`)"
        )


def about(seconds: float) -> str:
    """Return a rounded duration: ``about 40 s``, ``about 8 min``, ``about 2 h 10 min``."""
    if seconds < 95:
        return f"about {max(math.ceil(seconds / 5) * 5, 5)} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"about {minutes} min"
    hours, rest = divmod(round(minutes / 10) * 10, 60)
    return f"about {hours} h{f' {rest} min' if rest else ''}"
