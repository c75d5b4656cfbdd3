"""Trouble as pytest shows it, without our traceback: a lab's is an error of the set-up, a kernel's a failure."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_pinet.errors import BuildError, InvalidMeasurement, KernelError, PinetError
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.tuning import SettingOutcome, Tuned
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.result_record import ResultParts, result_record


def error_record(test: str, combination: Combination, error: PinetError, rerun: str) -> ResultRecord:
    """A result without figures, for a test whose measurement did not come about."""
    verdict = Verdict.INVALID if isinstance(error, InvalidMeasurement) else Verdict.ERROR
    if isinstance(error, KernelError | BuildError):
        verdict = Verdict.FAIL
    parts = ResultParts(
        id=combination.id,
        verdict=verdict,
        message=str(error),
        combination=combination,
        console_excerpt=error.excerpt,
        finding=error.kind if isinstance(error, BuildError) else None,
    )
    return result_record(parts, test, rerun)


def as_report(item: pytest.Item, report: pytest.TestReport, error: PinetError, text: str) -> None:
    """Rewrite a failed report: the message instead of a traceback, and an error instead of a failure.

    pytest and everything behind it (JUnit, summary, xdist) call what fails outside the call phase an error; a
    measurement that the lab broke failed in its set-up. A broken kernel or build is a failure, also in the set-up.
    """
    # pytest prints the class's name before the message; "builtins" keeps it free of a module's.
    named = type(type(error).__name__, (pytest.fail.Exception,), {"__module__": "builtins"})
    try:
        raise named(text, pytrace=False)
    except pytest.fail.Exception as plain:
        report.longrepr = item.repr_failure(pytest.ExceptionInfo.from_exception(plain))
    if isinstance(error, KernelError | BuildError):
        report.when = "call" if report.when == "setup" else report.when
    elif report.when == "call":
        report.when = "setup"


def require_tunings(tunings: Sequence[Tuned]) -> None:
    """End a test that cannot do without its tuning: it is skipped where there is no such knob.

    Raises InvalidMeasurement for one that was refused, or came out otherwise than asked for.
    """
    lost = [one for one in tunings if not one.outcome.holds]
    if lost and all(one.outcome is SettingOutcome.UNSUPPORTED for one in lost):
        pytest.skip("; ".join(map(str, lost)))
    if lost:
        raise InvalidMeasurement("\n".join(f"{one}, and tuning_required is set: not measured" for one in lost))
