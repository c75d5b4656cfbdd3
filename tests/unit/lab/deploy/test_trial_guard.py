"""When the guard of a trial boot gives up a board."""

from __future__ import annotations

import pytest

from pytest_pinet.lab.deploy.trial_guard import LOGIN_S, SILENCE_S, read_guard
from tests.support.local_shell import LocalShell


@pytest.mark.parametrize(
    ("boot_timeout_s", "silence_s"), [(30.0, SILENCE_S), (180.0, 180 + LOGIN_S), (300.0, 300 + LOGIN_S)]
)
def test_a_board_that_may_boot_slowly_is_not_rebooted_before_it_answers(boot_timeout_s: float, silence_s: int) -> None:
    guard = read_guard(LocalShell("pi1"), boot_timeout_s)
    assert f"[ $still -ge {silence_s} ]" in guard.installed()
    assert f"no heartbeat for {silence_s} s" in guard.installed()
