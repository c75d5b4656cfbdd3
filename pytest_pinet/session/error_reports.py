"""Show errors in pytest without a traceback: an error of the lab is an error, a broken kernel is a failure."""

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
    """Return the result of a test that an error ended. The result has no values."""
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
    return result_record(parts).replace(test=test, rerun=rerun)


def as_report(item: pytest.Item, report: pytest.TestReport, error: PinetError, text: str) -> None:
    """Rewrite a failed report: show ``text`` instead of a traceback, and set the phase by the kind of the error.

    pytest, JUnit and xdist report a failure of the call phase as a failure, and of other phases as an error. So an
    error of the lab is moved to the set-up, and a broken kernel or build is moved to the call.
    """
    # pytest prints the name of the class before the message, without a module if it is "builtins".
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
    """Skip a test with ``tuning_required`` if the kernel or driver lacks its settings.

    Raises InvalidMeasurement if a setting was rejected, or read back with another value.
    """
    lost = [one for one in tunings if not one.outcome.holds]
    if lost and all(one.outcome is SettingOutcome.UNSUPPORTED for one in lost):
        pytest.skip("; ".join(map(str, lost)))
    if lost:
        raise InvalidMeasurement("\n".join(f"{one}, and tuning_required is set: not measured" for one in lost))
