"""Leases when the coordinator or an exporter dies and comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest

from pytest_pinet.errors import CoordinatorError, LeaseError
from pytest_pinet.lab import lease as lease_module
from pytest_pinet.lab.labgrid import coordinator as coordinator_module
from pytest_pinet.lab.labgrid.coordinator import Coordinator
from pytest_pinet.lab.labgrid.identity import TAG
from pytest_pinet.lab.lease import Leases
from tests.support.labgrid_server import SERVED, LabgridServer, await_loss, connected, labgrid_server, leases
from tests.support.waiting import wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LabgridServer]:
    with labgrid_server(tmp_path, exporter=True) as started:
        yield started


@pytest.fixture
def coordinator(server: LabgridServer) -> Iterator[Coordinator]:
    with connected(server) as opened:
        yield opened


@pytest.fixture
def own(coordinator: Coordinator) -> Leases:
    return leases(coordinator)


def test_a_coordinator_that_restarts_ends_the_lease_and_the_next_one_has_the_resources_again(
    server: LabgridServer, coordinator: Coordinator, own: Leases
) -> None:
    own.acquire([SERVED, "pi1"], 5)
    entry = coordinator.session.resources["shelf"]["pi6"]["NetworkService"]
    server.stop()
    await_loss(coordinator)
    with pytest.raises(CoordinatorError, match=f"connection to the labgrid coordinator at {server.address} was lost"):
        own.check([SERVED, "pi1"])
    server.start()
    # We held it before and no other process took it, so our undo steps may still change its nodes.
    assert own.lost([SERVED, "pi1"]) == set()
    with pytest.raises(CoordinatorError, match="was away during the test"):
        own.check([SERVED])
    Timer(1.0, server.start_exporter).start()
    own.acquire([SERVED, "pi1"], 60)
    own.check([SERVED, "pi1"])
    assert coordinator.resources(SERVED) == {("shelf", "pi6", "NetworkService", "NetworkService")}
    # labgrid's targets refer to this object, which stays the same and is updated.
    assert coordinator.session.resources["shelf"]["pi6"]["NetworkService"] is entry
    assert entry.data["acquired"] == SERVED
    own.release(own.held)
    coordinator.sync()
    assert coordinator.holder(SERVED) is None
    assert TAG not in coordinator.session.places[SERVED].tags


def test_a_place_that_another_user_took_during_a_restart_is_lost(
    server: LabgridServer, coordinator: Coordinator, own: Leases
) -> None:
    own.acquire(["pi1", "pi2"], 5)
    server.kill()
    await_loss(coordinator)
    server.start()
    server.alice("pi2", "acquire", "--allow-unmatched")
    assert own.lost(["pi1", "pi2"]) == {"pi2"}
    assert own.held == {"pi1"}
    with pytest.raises(LeaseError, match="for place pi2, held by otherhost/alice"):
        own.acquire(["pi1", "pi2"], 0.5)


def test_a_release_without_coordinator_is_repeated_later(
    server: LabgridServer, coordinator: Coordinator, own: Leases
) -> None:
    own.acquire(["pi1"], 5)
    server.kill()
    await_loss(coordinator)
    own.release(["pi1"])
    with pytest.raises(CoordinatorError, match=r"could not release place pi1: the labgrid coordinator .* went away"):
        own.settle()
    server.start()
    own.settle()
    own.acquire(["pi1"], 5)
    own.check(["pi1"])


def test_the_wait_for_a_lost_coordinator_happens_once(
    server: LabgridServer, coordinator: Coordinator, own: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator_module, "RETURN_TIMEOUT_S", 2.0)
    server.kill()
    await_loss(coordinator)
    waited = []
    for _ in range(2):
        started = time.monotonic()
        with pytest.raises(
            CoordinatorError, match=r"went away \d s ago and is not back\n  -> the lab's admin: check that lab"
        ):
            own.acquire(["pi1"], 60)
        waited.append(time.monotonic() - started)
    assert 1 < waited[0] < 30
    assert waited[1] < waited[0] / 2


def test_an_exporter_that_restarts_ends_the_lease_and_the_next_one_has_the_resources_again(
    server: LabgridServer, coordinator: Coordinator, own: Leases
) -> None:
    own.acquire([SERVED, "pi1"], 5)
    server.kill_exporter()
    server.start_exporter()
    own.check(["pi1"])
    with pytest.raises(CoordinatorError, match=f"the labgrid exporter shelf of place {SERVED} went away during the te"):
        own.check([SERVED])
    own.acquire([SERVED, "pi1"], 60)
    own.check([SERVED, "pi1"])
    assert coordinator.session.resources["shelf"]["pi6"]["NetworkService"].data["acquired"] == SERVED


def test_an_exporter_that_stays_away_is_named_and_other_places_stay_usable(
    server: LabgridServer, coordinator: Coordinator, own: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "RETURN_TIMEOUT_S", 2.0)
    own.acquire([SERVED], 5)
    server.kill_exporter()
    # Until the coordinator notices the loss, a check still finds the place.
    wait_until("the exporter to be missed", lambda: coordinator.left_at("shelf"))
    started = time.monotonic()
    with pytest.raises(
        CoordinatorError,
        match=rf"exporter shelf of place {SERVED} went away \d s ago and is not back\n  -> .* -n shelf again",
    ):
        own.acquire([SERVED], 60)
    assert time.monotonic() - started < 30
    own.acquire(["pi1"], 5)
    own.check(["pi1"])
