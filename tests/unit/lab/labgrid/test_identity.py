"""An identity shows whether its process still lives."""

import os
import subprocess
import sys

from pytest_pinet.lab.labgrid.identity import Identity, machine, start_time


def test_this_process_is_alive() -> None:
    own = Identity.of_this_process("gw3")
    assert not own.is_dead
    assert Identity.parse(str(own)) == own
    assert own.user.startswith(f"pinet-gw3-{os.getpid()}-")


def test_an_ended_process_is_dead() -> None:
    code = "from pytest_pinet.lab.labgrid.identity import Identity; print(Identity.of_this_process())"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert Identity.parse(printed).is_dead


def test_a_reused_pid_is_another_process() -> None:
    own = Identity.of_this_process()
    start = start_time(os.getpid()) or 0
    other = Identity(own.host, own.user.replace(f"-{start}-", f"-{start + 1}-"))
    assert other.is_dead


def test_holders_on_other_hosts_and_labgrid_users_are_never_dead() -> None:
    own = Identity.of_this_process()
    elsewhere = own.user.replace(machine(), "0123abcd").replace(str(os.getpid()), str(2**30))
    assert not Identity(own.host, elsewhere).is_dead
    assert not Identity(own.host, "alice").is_dead


def test_workers_of_one_run_are_siblings() -> None:
    first, second = Identity.of_this_process("gw0", "abc"), Identity.of_this_process("gw1", "abc")
    assert first.is_sibling_of(second)
    assert not first.is_sibling_of(Identity.of_this_process("gw1", "other"))
    assert not Identity.of_this_process().is_sibling_of(Identity.of_this_process())
    assert not first.is_sibling_of(Identity("host", "alice"))


def test_start_time_of_no_process_is_none() -> None:
    assert start_time(2**30) is None
