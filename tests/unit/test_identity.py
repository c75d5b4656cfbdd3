"""Identities tell whether their process still lives."""

import os
import subprocess
import sys

from pytest_pinet.lab.identity import Identity, start_time


def test_this_process_is_alive() -> None:
    own = Identity.of_this_process("gw3")
    assert not own.is_dead
    assert Identity.parse(str(own)) == own
    assert own.user.startswith(f"pinet-gw3-{os.getpid()}-")


def test_an_ended_process_is_dead() -> None:
    code = "from pytest_pinet.lab.identity import Identity; print(Identity.of_this_process())"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert Identity.parse(printed).is_dead


def test_a_recycled_pid_is_another_process() -> None:
    own = Identity.of_this_process()
    other = Identity(own.host, f"pinet-main-{os.getpid()}-{(start_time(os.getpid()) or 0) + 1}")
    assert other.is_dead


def test_nothing_is_known_of_other_hosts_and_people() -> None:
    assert not Identity("elsewhere", "pinet-main-1-1").is_dead
    assert not Identity(Identity.of_this_process().host, "alice").is_dead


def test_start_time_of_no_process_is_none() -> None:
    assert start_time(2**30) is None
