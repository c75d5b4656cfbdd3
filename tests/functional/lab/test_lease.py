"""Leases on a real labgrid coordinator: all or none, no deadlock, no place left acquired."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from threading import Timer

import pytest

from pytest_pinet.errors import CoordinatorError, LeaseError
from pytest_pinet.lab import contention
from pytest_pinet.lab.labgrid.coordinator import Coordinator
from pytest_pinet.lab.labgrid.identity import TAG, Identity
from tests.support.labgrid_server import PLACES, LabgridServer, await_holding, connected, labgrid_server, leases, runner


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabgridServer]:
    with labgrid_server(tmp_path_factory.mktemp("coordinator")) as started:
        yield started


@pytest.fixture
def coordinator(server: LabgridServer) -> Iterator[Coordinator]:
    with connected(server) as opened:
        yield opened


def test_a_lease_is_seen_by_the_coordinator_and_released(coordinator: Coordinator) -> None:
    own = leases(coordinator)
    own.acquire(["pi2", "pi1"], 5)
    assert own.held == {"pi1", "pi2"}
    assert coordinator.holder("pi1") == coordinator.identity
    own.check(["pi1", "pi2"])
    own.release(["pi1"])
    coordinator.sync()
    assert coordinator.holder("pi1") is None
    own.release(own.held)


def test_a_closed_session_loses_no_task(server: LabgridServer, caplog: pytest.LogCaptureFixture) -> None:
    with connected(server) as opened:
        loop = opened.loop
        # As gRPC does at the end of a stream: a task that is nearly done when the session is closed.
        task = asyncio.run_coroutine_threadsafe(asyncio.sleep(0.1, "done"), loop)
        # As a task that never ends by itself.
        endless = asyncio.run_coroutine_threadsafe(asyncio.sleep(600), loop)
    assert task.result(0) == "done"
    assert endless.cancelled()
    assert asyncio.all_tasks(loop) == set()
    assert caplog.records == []


def test_a_place_that_is_released_after_a_refusal_is_tried_again(
    coordinator: Coordinator, server: LabgridServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.alice("pi2", "acquire", "--allow-unmatched")
    look = coordinator.sync

    def sync() -> None:
        monkeypatch.setattr(coordinator, "sync", look)
        server.alice("pi2", "release")
        look()

    monkeypatch.setattr(coordinator, "sync", sync)
    assert not coordinator.acquire("pi2")
    assert coordinator.acquire("pi2")
    coordinator.release("pi2", coordinator.identity)


def test_a_wait_names_its_place_and_releases_all_at_the_timeout(
    coordinator: Coordinator, server: LabgridServer
) -> None:
    server.alice("pi2", "acquire", "--allow-unmatched")
    waits: list[str] = []
    own = leases(coordinator, waits)
    with pytest.raises(
        LeaseError,
        match=r"waited \d s for place pi2, held by otherhost/alice since \d\d:\d\d:\d\d\n  -> ask alice on otherhost, ",
    ):
        own.acquire(["pi1", "pi2", "pi3"], 1.0)
    assert re.match(
        r"waiting for place pi2: held by otherhost/alice since \d\d:\d\d:\d\d \(waited 0 s of 1 s\)$", waits[0]
    )
    assert own.held == set()
    coordinator.sync()
    assert coordinator.holder("pi1") is None
    server.alice("pi2", "release")


def test_heartbeats_carry_the_start_of_the_lease(coordinator: Coordinator, server: LabgridServer) -> None:
    started = time.time()
    process = runner(server, 5, 0, "pi2", host="elsewhere")
    await_holding(process)
    acquired = time.time()
    try:
        # Every heartbeat updates the place's time stamp.
        deadline = time.monotonic() + 60
        seen: set[str] = set()
        while len(seen) < 2 and time.monotonic() < deadline:
            coordinator.await_change(0.1)
            coordinator.sync()
            seen |= {coordinator.session.places["pi2"].tags.get(TAG, "")} - {""}
        assert len(seen) == 2
        holding = coordinator.holding("pi2")
        assert holding is not None
        assert holding.since is not None
        assert started - 1 <= holding.since <= acquired + 1
    finally:
        process.kill()
        process.communicate()
    coordinator.release("pi2", holding.holder)


def test_only_our_own_tag_is_removed_from_a_place(coordinator: Coordinator, server: LabgridServer) -> None:
    server.alice("pi3", "set-comment", "second shelf")
    own = leases(coordinator)
    own.acquire(["pi3"], 5)
    deadline = time.monotonic() + 60
    while TAG not in coordinator.session.places["pi3"].tags and time.monotonic() < deadline:
        coordinator.sync()
    own.release(["pi3"])
    coordinator.sync()
    assert coordinator.session.places["pi3"].tags == {"board": "pi4b"}
    assert coordinator.session.places["pi3"].comment == "second shelf"


def test_a_lost_place_is_noticed(coordinator: Coordinator) -> None:
    own = leases(coordinator)
    own.acquire(["pi1"], 5)
    coordinator.release("pi1", coordinator.identity)
    with pytest.raises(LeaseError, match="place pi1 was lost during the test, and no user holds it"):
        own.check(["pi1"])
    assert own.held == set()


def test_an_unknown_place_is_an_error_that_lists_the_known_ones(coordinator: Coordinator) -> None:
    with pytest.raises(LeaseError, match=r"has no place 'pi9' \(it has: pi1, pi2, pi3, pi4, pi5, pi6\)"):
        leases(coordinator).acquire(["pi9"], 1)


def test_one_more_place_is_leased_while_the_nodes_stay_leased(coordinator: Coordinator, server: LabgridServer) -> None:
    own = leases(coordinator)
    own.acquire(["pi1"], 5)
    with own.also("pi2", 5):
        assert own.held == {"pi1", "pi2"}
    coordinator.sync()
    assert coordinator.holder("pi2") is None
    server.alice("pi2", "acquire", "--allow-unmatched")
    with pytest.raises(LeaseError, match="for place pi2, held by otherhost/alice"), own.also("pi2", 0.5):
        pass
    assert own.held == {"pi1"}
    own.release(own.held)
    server.alice("pi2", "release")


def test_acquire_free_leases_free_places_and_names_the_other_holders(
    coordinator: Coordinator, server: LabgridServer
) -> None:
    server.alice("pi2", "acquire", "--allow-unmatched")
    own = leases(coordinator)
    missing = own.acquire_free(["pi3", "pi9", "pi2", "pi1"])
    # No place was released, because there was no wait.
    assert own.held == {"pi1", "pi3"}
    assert list(missing) == ["pi2", "pi9"]
    assert str(missing["pi2"]).startswith("otherhost/alice since ")
    assert "has no place 'pi9'" in str(missing["pi9"])
    server.alice("pi2", "release")
    assert own.acquire_free(["pi1", "pi2"]) == {}
    own.release(own.held)


def test_a_worker_of_the_same_run_may_hold_a_place_for_longer_than_we_wait_for_others(server: LabgridServer) -> None:
    waits: list[str] = []
    with connected(server, "gw0", "r1") as one, connected(server, "gw1", "r1") as other:
        theirs, own = leases(one), leases(other, waits)
        theirs.acquire(["pi1"], 5)
        # Much longer than our wait for others. After we acquired it, they released it.
        timer = Timer(1.0, lambda: theirs.release(["pi1"]))
        timer.start()
        own.acquire(["pi1"], 0.2)
        timer.join()
        assert theirs.held == set()
        own.release(own.held)
    assert re.search(r"pi1: held by \S+-r1 since \S+ \(a worker of this run; waited 0 s for it\)$", waits[0])


def test_a_worker_of_the_same_run_that_never_releases_is_an_error(
    server: LabgridServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contention, "SIBLING_S", 0.8)
    with connected(server, "gw0", "r1") as one, connected(server, "gw1", "r1") as other:
        theirs, own = leases(one), leases(other)
        theirs.acquire(["pi1"], 5)
        with pytest.raises(
            LeaseError, match=r"waited \d s for place pi1, held by \S+-r1 since \S+, a worker of this run.*\n.* hangs"
        ):
            own.acquire(["pi1", "pi2"], 0.2)
        assert own.held == set()
        theirs.release(["pi1"])


# tests/soak has a statement about 200.
ROUNDS = 60


def uses_without_lease(log: str) -> list[str]:
    """Return every use of a place that its user did not hold the whole time, from the coordinator's log alone."""
    holder: dict[str, str] = {}
    using: dict[str, str] = {}
    wrong = []
    events = re.compile(
        r"^(?P<place>\w+): place (?:acquired by (?P<by>\S+)|(?P<free>released))$"
        r'|^placename: "(?P<named>\w+)"\nfromuser: "(?P<word>begin|end)/(?P<user>\S+)"$',
        re.MULTILINE,
    )
    for event in events.finditer(log):
        place = event["place"] or event["named"]
        if event["by"]:
            holder[place] = event["by"]
        elif event["word"] and holder.get(place) != event["user"]:
            wrong.append(f"{event['user']} {event['word']}s with {place}, held by {holder.get(place)}")
        elif event["word"] == "begin":
            using[place] = event["user"]
        elif event["word"] == "end":
            using.pop(place, None)
        else:
            if place in using:
                wrong.append(f"{place} taken from {using[place]} in mid-use")
            holder.pop(place, None)
    return wrong


def test_the_check_of_the_log_finds_a_double_use() -> None:
    log = 'pi1: place acquired by a/b\nplacename: "pi1"\nfromuser: "begin/c/d"\n'
    assert uses_without_lease(log) == ["c/d begins with pi1, held by a/b"]


@pytest.mark.smoke
def test_two_runners_with_overlapping_combinations_both_finish(server: LabgridServer, coordinator: Coordinator) -> None:
    said = len(server.log)
    runners = [runner(server, seed, ROUNDS, host=f"runner{seed}") for seed in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in runners]
    assert outputs == ["done\n", "done\n"]
    log = server.log[said:]
    assert log.count('"begin/') >= 2 * ROUNDS * 2
    assert {"runner0", "runner1"} == set(re.findall(r"place acquired by (\w+)/", log))
    assert uses_without_lease(log) == []
    coordinator.sync()
    assert [coordinator.holder(place) for place in PLACES] == [None] * len(PLACES)
    assert all(coordinator.session.places[place].tags == {"board": "pi4b"} for place in PLACES)


def test_the_place_of_a_killed_holder_is_leased_at_once(server: LabgridServer, coordinator: Coordinator) -> None:
    process = runner(server, 7, 0, "pi2")
    await_holding(process)
    process.kill()
    process.communicate()
    own = leases(coordinator)
    # Its process is known to be dead, so there is no wait for a missing heartbeat.
    own.acquire(["pi2"], 10)
    own.release(own.held)


@pytest.mark.slow
def test_a_silent_holder_loses_its_place_and_a_labgrid_user_keeps_it(
    server: LabgridServer, coordinator: Coordinator
) -> None:
    process = runner(server, 8, 0, "pi2", "pi3", host="elsewhere")
    await_holding(process)
    # Her place has an old heartbeat only because another process died there before.
    server.alice("pi4", "acquire", "--allow-unmatched")
    server.alice("pi4", "set-tags", f"{TAG}=01234567.8.1700000000")
    process.kill()
    process.communicate()
    started = time.monotonic()
    waits: list[str] = []
    own = leases(coordinator, waits)
    own.acquire(["pi2"], 120)
    waited = time.monotonic() - started
    # It takes time to see whether the heartbeat continues.
    assert waited > 10
    assert "held by elsewhere/pinet-w8-" in waits[-1]
    coordinator.sync()
    # The place was released without a request.
    assert coordinator.holder("pi3") is None
    assert coordinator.holder("pi4") == Identity("otherhost", "alice")
    own.release(own.held)
    server.alice("pi4", "release")
    server.alice("pi4", "set-tags", f"{TAG}=")


def test_no_coordinator_is_one_sentence() -> None:
    with pytest.raises(CoordinatorError, match=r"coordinator answers at 127.0.0.1:1\b"):
        Coordinator("127.0.0.1:1", Identity.of_this_process())
