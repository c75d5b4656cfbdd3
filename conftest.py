"""What all tests of this repository share."""

from __future__ import annotations

import signal

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell lets its background jobs ignore SIGINT, and so would all that is started here to be interrupted."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
