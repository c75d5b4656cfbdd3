"""``pinet selftest`` is interrupted or killed during a reduction: no shaper is left."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.doctor_command import pinet
from tests.support.gate_project import PINET, GateLab
from tests.support.visited_link import PAIR, PEER, shapers, visited
from tests.support.waiting import wait_until


@pytest.fixture
def off_afterwards(gate_lab: GateLab) -> Iterator[None]:
    """Switch off the nodes that a killed command leaves on, because other tests expect them off."""
    yield
    gate_lab.switch_power(False, PAIR.partition(":")[0] + "-1", PEER)


@contextmanager
def amid_a_reduction(lab: GateLab) -> Iterator[subprocess.Popen[str]]:
    """Start a self-test and wait for its shaper. The peer stays on afterwards for inspection."""
    lab.switch_power(True, PEER)
    lab.await_boot(PEER)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LG_", "PINET_"))}
    # With this seed, the first five gates have a reduction.
    words = [PAIR, "--reductions", "40%", "--repeats", "5", "--direction", "tx", "--seed", "1"]
    process = subprocess.Popen(
        [PINET, "selftest", "--lab", str(lab.file), *words],
        env={**kept, **lab.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until("the shaper", lambda: len(shapers(lab)) == 3, timeout_s=180)
        yield process
    finally:
        process.kill()
        # Read the rest of its output and close its pipes.
        process.communicate(timeout=30)
        lab.switch_power(False, PEER)


@pytest.mark.slow
@pytest.mark.usefixtures("off_afterwards")
def test_an_interrupted_selftest_removes_the_shaper_and_prints_its_counts(gate_lab: GateLab) -> None:
    with amid_a_reduction(gate_lab) as process:
        process.send_signal(signal.SIGINT)
        process.wait(120)
        assert shapers(gate_lab) == []
        assert process.stderr is not None
        errors = process.stderr.read()
    assert process.returncode == 130
    assert "interrupted: only the gates before the interruption are counted" in errors
    assert "Traceback" not in errors


@pytest.mark.slow
@pytest.mark.usefixtures("off_afterwards")
def test_a_killed_selftest_leaves_no_shaper(gate_lab: GateLab) -> None:
    with amid_a_reduction(gate_lab) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        # The guard on the node notices the end of its ssh connection.
        wait_until("the end of the shaper", lambda: shapers(gate_lab) == [], timeout_s=30)
        with visited(gate_lab, after_kill=True) as (_, link):
            assert shapers(gate_lab) == []
            assert link.peer.endpoint.node.name == PEER


def test_wrong_arguments_exit_with_code_4(gate_lab: GateLab) -> None:
    lab = ("--lab", str(gate_lab.file))
    for words, message in (
        (("--reductions", "5"), "--reductions: '5' is not a share; expected a share such as '94%'"),
        (("--reductions", "5%,95%"), "--reductions 95%: expected a share above 0%, at most 90%"),
        (("--tolerance", "0%"), "--tolerance 0%: expected a share above 0%"),
        (("pi3b:onboard/incast:3",), "a self-test slows one link, so it needs pairs"),
    ):
        answer = pinet(gate_lab, "selftest", *lab, *words)
        assert answer.code == 4, words
        assert message in answer.errors
