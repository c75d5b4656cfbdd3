"""A test suite's warning filters do not affect the turns of a build, which run outside of any test."""

from __future__ import annotations

import pytest

from tests.support.change_session import Bench, fresh_plans

PLAN = """
import warnings

def start(side, boot):
    # As labgrid's SerialLoggingReporter does for a console that has said nothing yet.
    warnings.warn("unhandled exception during event notification: PiSerialDriver(one)")

PLAN = Plan(start=start)
"""
TEST = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_tx(link, gate):
    gate.tcp(link, direction="tx")
"""


def test_labgrid_may_warn_of_a_silent_console_where_warnings_are_errors(pytester: pytest.Pytester) -> None:
    with fresh_plans(pytester.path):
        bench = Bench(pytester)
        bench.plan(PLAN)
        # The plugin was imported before this pytest began.
        known = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
        pytester.makeini(f"[pytest]\nfilterwarnings =\n    error\n    {known}\n")
        pytester.makepyfile(test_it=TEST)
        bench.run().assert_outcomes(passed=1)
