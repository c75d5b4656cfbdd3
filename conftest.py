"""What all tests of this repository share."""

from __future__ import annotations

import os
import signal

import pytest

from pytest_pinet.evidence.other_work import LAB_VARIABLE

pytest_plugins = ["pytester"]
# All that the tests start counts as part of a lab: tests that run at the same time are no other programs to each other.
os.environ.setdefault(LAB_VARIABLE, "tests")


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell lets its background jobs ignore SIGINT, and so would all that is started here to be interrupted."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
