"""An identity shows whether its process still lives."""

from __future__ import annotations

import os
import subprocess
import sys

from pytest_pinet.lab.labgrid.identity import STILL_S, Heartbeat, Identity, Watch, machine, start_time


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


ONE = Identity("host", "pinet-gw0-1-2-0123abcd-run")
OTHER = Identity("host", "pinet-gw1-3-4-0123abcd-run")


def looks(watch: Watch, counts: dict[Identity, int | None], times: int, each_s: float = 3.0) -> list[Identity]:
    dead: list[Identity] = []
    for _ in range(times):
        dead = watch.look(counts, each_s)
    return dead


def test_a_heartbeat_contains_holder_and_start_of_the_lease() -> None:
    beat = Heartbeat(ONE.mark, 7, 1700000000.0)
    assert Heartbeat.parse(str(beat)) == beat
    assert Heartbeat.of(ONE, str(beat)) == beat
    assert Heartbeat.of(OTHER, str(beat)) is None


def test_other_text_in_the_tag_is_no_heartbeat() -> None:
    for text in (None, "", "x", "a.b.c", "a.1", "a.-1.2", ".1.2", "a.1.2.3"):
        assert Heartbeat.parse(text) is None


def test_a_holder_is_dead_when_its_heartbeat_stops() -> None:
    watch = Watch()
    for count in range(20):
        dead = watch.look({ONE: count, OTHER: 5}, 3.0)
    assert dead == [OTHER]


def test_a_holder_is_dead_only_after_several_missed_beats() -> None:
    watch = Watch()
    assert looks(watch, {ONE: 1}, int(STILL_S // 3)) == []
    assert looks(watch, {ONE: 1}, 1) == [ONE]


def test_a_holder_without_any_beat_gets_the_same_time() -> None:
    watch = Watch()
    assert looks(watch, {ONE: None}, 3) == []
    assert looks(watch, {ONE: None}, 3) == [ONE]


def test_an_outage_of_the_coordinator_makes_no_holder_dead() -> None:
    assert looks(Watch(), {ONE: 1}, 100, each_s=0.0) == []


def test_a_holder_that_leases_again_starts_from_zero() -> None:
    watch = Watch()
    looks(watch, {ONE: 1}, 5)
    watch.look({}, 3.0)
    assert looks(watch, {ONE: 1}, 2) == []
