"""Stopped heartbeats are detected with the watcher's own clock alone."""

from pytest_pinet.lab.labgrid.identity import STILL_S, Heartbeat, Identity, Watch

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
