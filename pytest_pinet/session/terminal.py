"""What pytest's terminal shows of a run: the lines above the tests, and words and letters of the outcomes."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.config.calibration import ReferenceData
from pytest_pinet.config.schema import LabOfFile
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.sequential import ERROR_RATE
from pytest_pinet.judge.turns import KINDS_APART, LEAST_BOOTS, OBVIOUS, least_by_chance
from pytest_pinet.measure import idle
from pytest_pinet.measure.figures import USUAL_S
from pytest_pinet.model.metric_key import CombinationId
from pytest_pinet.model.verdict import Verdict, worst
from pytest_pinet.report.result_record import attached_verdicts, skip_reason
from pytest_pinet.report.text_wrap import wrap
from pytest_pinet.scheduling.planner import AROUND_S, DEFAULT_TOTAL_S, Estimates, skipped_before
from pytest_pinet.session.dry_run import PLANNED
from pytest_pinet.session.option_table import ACCEPTED, RUNNING
from pytest_pinet.session.parametrizer import case_of
from pytest_pinet.traffic.exchange import is_without

# Calls whose values take the usual time, and the time to start and end the programs of one value.
_USUAL = ("transactions", "connections", "packets", "latency")
AROUND_PROBE_S = 2.5
# Five flaps, and 33 boots.
_EVENTS_S = {"recovery": 32.0, "boots": 33 * 60.0}


@dataclass(eq=False)
class RunHeader:
    """Registered as a plugin. With workers, the controller prints the lines, which it knows once they have collected.

    ``profile_of`` returns the profile of a test. ``runs`` returns the folder of the run folders.
    """

    config: pytest.Config
    lab: LabOfFile
    references: ReferenceData
    profile_of: Callable[[pytest.Item], Profile]
    runs: Callable[[], Path]

    def pytest_report_collectionfinish(self, items: Sequence[pytest.Item]) -> list[str]:
        """Print the lines if a test will measure."""
        if self.config.get_verbosity() < 0 or not any(item.get_closest_marker("pinet") for item in items):
            return []
        cases = [(item, case.combination.identity) for item in items if (case := case_of(item)) is not None]
        if not cases:
            return self._of_lab()
        estimates = Estimates.of_earlier_runs(self.runs())
        seconds = sum(estimates.total_s(item.nodeid, first_s(item, self.profile_of(item))) for item, _ in cases)
        profiles = dict.fromkeys(self.profile_of(item).name for item, _ in cases)
        lines = self._lines(profiles, self._baseline([combination for _, combination in cases]), about(seconds))
        return [*lines, *self._without_programs([item.nodeid for item, _ in cases])]

    def of_workers(self, profile: Profile, nodeids: Sequence[str], seconds: float, workers: int) -> list[str]:
        """Return the lines of the controller, which does not know the combinations and markers of the tests."""
        if self.config.get_verbosity() < 0:
            return []
        shared = f"{about(seconds)} of work for {workers} worker{'s' if workers != 1 else ''}"
        return [*self._lines([profile.name], self._baseline(None), shared), *self._without_programs(nodeids)]

    def _without_programs(self, nodeids: Sequence[str]) -> list[str]:
        """Return a line on the tests that earlier runs skipped because a node lacks a program."""
        skipped = skipped_before(self.runs(), [nodeid.rpartition("::")[2] for nodeid in nodeids])
        tests: dict[str, dict[str, None]] = {}
        for name, reason in skipped.items():
            if is_without(reason):
                tests.setdefault(reason, {})[name.partition("[")[0]] = None
        found = [f"{', '.join(names)} ({reason})" for reason, names in tests.items()]
        text = f"pinet: skipped in the last run, and again unless you act: {'; '.join(found)}"
        return wrap(text, hanging="  ") if found else []

    def _of_lab(self, how_long: str = "") -> list[str]:
        lab = self.lab
        sizes = f"{len(lab.nodes)} nodes, {len(lab.interfaces())} interfaces"
        return wrap(f"pinet: lab {lab.name} ({sizes}){how_long and f'; {how_long}'}", hanging="  ")

    def _lines(self, profiles: Iterable[str], baseline: str, how_long: str) -> list[str]:
        turns = " in each turn" if self.config.getoption("--pinet-build") else ""
        names = list(profiles)
        profile = f"profile{'s' if len(names) > 1 else ''} {', '.join(names)}"
        return [*self._of_lab(how_long + turns), *wrap(f"pinet: {profile}; {baseline}", hanging="  ")]

    def _baseline(self, combinations: Sequence[CombinationId] | None) -> str:
        """Return what the values are compared with. None: the combinations of the tests are not known."""
        chosen = self.config.getoption("--pinet-against") or RUNNING
        if self.config.getoption("--pinet-build") and chosen != ACCEPTED:
            name = "running, the own build of each board" if chosen == RUNNING else Path(chosen).name
            return f"known-good build {name}{self._turns(combinations)}"
        known = self.references.baselines
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
        if self.references.is_calibrated(combinations):
            return ""
        least, most = (least_by_chance(0, ERROR_RATE, ways) for ways in (1, 2))
        return (
            f"; without a calibration of boots, a verdict takes {LEAST_BOOTS} turns at a tolerance of "
            f"{KINDS_APART * 100:g} % or more, {least} or {most} at a smaller one ({LEAST_BOOTS} if the build is "
            f"more than {-OBVIOUS * 100:g} % slower, or after `pinet calibrate --boots`)"
        )


def first_s(item: pytest.Item, profile: Profile) -> float:
    """Return how long a test will take that has never run: by the profile and by the gate calls in its function."""
    called = getattr(getattr(getattr(item, "function", None), "__code__", None), "co_names", ())
    each = dict.fromkeys(_USUAL, USUAL_S + AROUND_PROBE_S)
    each["idle"] = idle.lasts_s(*idle.PINGS_AND_IDLE_S[profile.name])
    seconds = sum(each[name] * profile.fails_after for name in called if name in each)
    seconds += sum(_EVENTS_S[name] for name in called if name in _EVENTS_S)
    return seconds + AROUND_S if seconds else DEFAULT_TOTAL_S


def about(seconds: float) -> str:
    """Return a rounded duration: ``about 40 s``, ``about 8 min``, ``about 2 h 10 min``."""
    if seconds < 95:
        return f"about {max(math.ceil(seconds / 5) * 5, 5)} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"about {minutes} min"
    hours, rest = divmod(round(minutes / 10) * 10, 60)
    return f"about {hours} h{f' {rest} min' if rest else ''}"


# Letter and colours of each word. As in pytest, a passed test has a small sign, and the colours repeat the word.
STATUS: dict[Verdict, tuple[str, dict[str, bool]]] = {
    Verdict.MARGINAL: ("m", {"yellow": True}),
    Verdict.IMPROVED: ("+", {"cyan": True}),
    Verdict.INCONCLUSIVE: ("?", {"yellow": True, "bold": True}),
    Verdict.INVALID: ("!", {"yellow": True, "bold": True}),
}
# pytest's category of each word, in which its options -r and --tb look for reports.
_CATEGORIES = {
    Verdict.MARGINAL: "passed",
    Verdict.IMPROVED: "passed",
    Verdict.INVALID: "error",
    Verdict.INCONCLUSIVE: "error",
}


def status_word(report: object) -> Verdict | None:
    """Return the verdict that replaces pytest's word for this report; None if pytest's own word stays."""
    if not isinstance(report, pytest.TestReport) or hasattr(report, "wasxfail"):
        return None
    verdicts = attached_verdicts(report)
    verdict = worst(verdicts) if verdicts else None
    # A failed call is a failure, whatever an earlier gate call of the test found.
    said = "passed" if report.passed and report.when == "call" else None
    said = "error" if report.failed and report.when != "call" else said
    return verdict if verdict is not None and said is not None and _CATEGORIES.get(verdict) == said else None


class StatusWords:
    """Registered as a plugin, except in workers of pytest-xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: object) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """Return category, letter and word of a report."""
        if isinstance(report, pytest.TestReport) and report.skipped and skip_reason(report) == PLANNED:
            return "planned", "p", ("PLANNED", {"green": True})
        verdict = status_word(report)
        if verdict is None:
            return None
        letter, colours = STATUS[verdict]
        return verdict.value, letter, (verdict.value.upper(), colours)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Make the progress and the last line red: pytest does so if there is a category of errors, also if empty."""
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and report.failed and status_word(report) is not None:
            terminal.stats.setdefault("error", [])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, object, object]:
        """Let ``-rp`` and ``-rP`` list also tests that are marginal or improved, and ``-rE`` those without a verdict.

        The last line, which pytest writes after this hook, counts each test once, by its own word.
        """
        stats = terminalreporter.stats
        before = {name: list(stats[name]) for name in ("passed", "error") if name in stats}
        _merge(stats, "passed")
        try:
            return (yield)
        finally:
            for name in ("passed", "error"):
                stats.pop(name, None)
            stats.update(before)


def write_unjudged(terminal: Any, config: pytest.Config) -> None:
    """Print the texts of tests without a verdict, one section for each word.

    Call this in ``pytest_terminal_summary``, so that they come after pytest's errors and failures. pytest's list of
    errors (``-rE``) follows, and names these tests, too.
    """
    if config.option.tbstyle != "no" and not getattr(config.option, "no_summary", False):
        for verdict in (Verdict.INVALID, Verdict.INCONCLUSIVE):
            reports = terminal.stats.get(verdict, [])
            if reports:
                terminal.write_sep("=", verdict.value.upper())
            for report in reports:
                _write(terminal, report, config.option.showcapture)
    _merge(terminal.stats, "error")


def _merge(stats: dict[str, list[Any]], category: str) -> None:
    """Add the reports of our words to a category of pytest."""
    for verdict, name in _CATEGORIES.items():
        if name == category and stats.get(verdict):
            stats[category] = [*stats.get(category, []), *stats[verdict]]


def _write(terminal: Any, report: pytest.TestReport, captured: str) -> None:
    """Write the text of a report and what the test printed, as pytest does for an error."""
    terminal.write_sep("_", report.head_line or "test session", yellow=True, bold=True)
    terminal.write_line(report.longreprtext)
    for name, content in report.sections:
        if captured == "all" or (captured != "no" and captured in name):
            terminal.write_sep("-", name)
            terminal.write_line(content.removesuffix("\n"))
