"""Words and letters of pytest's run: marginal and improved beside passed, inconclusive and invalid beside error.

A test of a dry run is planned, not skipped.

Only the words change. The outcome of a report stays, so the exit code, ``--lf``, ``-x``, JUnit and pytest-xdist treat
such a test as before.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_pinet.model.verdict import Verdict, worst
from pytest_pinet.report.result_record import attached_verdicts, skip_reason
from pytest_pinet.session.dry_run import PLANNED

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
