"""The contention domains of a lab, and the key that distinguishes labs."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.lab import contention
from pytest_pinet.lab.contention import SIBLING_S, Patience, all_domains, domains_of, lab_key, queue_folder
from pytest_pinet.matrix import expansion
from tests.support.diagram_labs import virtual_lab


def test_all_nodes_of_a_launcher_share_the_domain_of_their_host() -> None:
    lab = virtual_lab()
    everybody = tuple(lab.nodes)
    declared = {"shelf": ("pi3b-1",)}
    assert all_domains(replace(lab, domains={})) == {"host": everybody}
    assert all_domains(replace(lab, domains=declared)) == {**declared, "host": everybody}
    # The domain keeps the user's name if it contains all nodes.
    assert all_domains(replace(lab, domains={"bus": everybody})) == {"bus": everybody}
    assert all_domains(replace(lab, domains=declared, launcher=None)) == declared


def test_a_combination_measures_in_the_domains_of_its_nodes() -> None:
    lab = replace(virtual_lab(), domains={"shelf": ("pi3b-1",), "rack": ("pi4b-1",)})
    pair = expansion.combination(lab, "pi4b:onboard/pair")
    assert {node.name for node in pair.nodes} >= {"pi4b-1"}
    assert domains_of(lab, pair) == ["rack", "host"]
    assert domains_of(replace(lab, launcher=None), pair) == ["rack"]


def test_all_names_of_a_coordinator_give_the_same_key() -> None:
    lab = replace(virtual_lab(), launcher=None)
    names = ("localhost:20408", "127.0.0.1:20408", "127.0.0.1", "localhost", "[::1]:20408", "LOCALHOST:20408")
    assert {lab_key(lab, name) for name in names} == {"this host:20408"}
    assert lab_key(lab, "127.0.0.1:9000") == "this host:9000"
    # A documentation address (RFC 5737). No packet is sent there.
    assert lab_key(lab, "192.0.2.1:20408") == lab_key(lab, "192.0.2.1") == "192.0.2.1:20408"
    assert lab_key(lab, "not a name:1") == "not a name:1"


def test_localhost_is_this_host_where_no_file_and_no_server_has_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(host: str, port: int, type: int) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    contention._resolved.cache_clear()
    monkeypatch.setattr("socket.getaddrinfo", unknown)
    assert lab_key(replace(virtual_lab(), launcher=None), "localhost:20408") == "this host:20408"


def test_a_name_of_this_host_on_the_network_is_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    contention._resolved.cache_clear()
    found = (socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("127.0.1.1", 20408))
    monkeypatch.setattr("socket.getaddrinfo", lambda host, port, type: [found])
    assert lab_key(replace(virtual_lab(), launcher=None), "bench:20408") == "this host:20408"


def test_labs_that_a_launcher_makes_share_this_host() -> None:
    assert lab_key(virtual_lab(), "127.0.0.1:1") == lab_key(virtual_lab(), "127.0.0.1:2")


def test_all_users_of_a_host_queue_in_the_same_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = queue_folder()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert queue_folder() == before
    assert str(before) in ("/run/lock/pinet", "/tmp/pinet")


class Waiting:
    """A wait with a clock that the test controls."""

    def __init__(self, timeout_s: float) -> None:
        self.now = 100.0
        self.patience = Patience(timeout_s, lambda: self.now)

    def go(self, seconds: float, holder: str, sibling: bool = False) -> Patience:
        """Another user holds the place for a while. The wait checks before and after it."""
        self.patience.look(holder, sibling)
        self.now += seconds
        self.patience.look(holder, sibling)
        return self.patience


def test_the_wait_for_other_runs_ends_at_the_timeout() -> None:
    waiting = Waiting(900)
    assert not waiting.go(899, "alice").over
    assert waiting.patience.progress == "waited 899 s of 900 s"
    assert waiting.patience.remaining_s == 1
    # It is one wait, even if the holder changes.
    assert waiting.go(1, "bob").over
    assert not waiting.patience.hangs
    assert waiting.patience.waited == "900 s"


def test_time_of_workers_of_the_same_run_does_not_count() -> None:
    waiting = Waiting(10)
    for number in range(20):
        assert not waiting.go(1000, f"test {number} of gw1", sibling=True).over
    assert waiting.patience.progress == "a worker of this run; waited 1000 s for it"
    assert not waiting.go(9, "alice").over
    assert waiting.go(1, "alice").over
    assert waiting.patience.waited == "10 s, and 20000 s for workers of this run"
    assert waiting.patience.waited_s == 20010


def test_a_worker_that_never_releases_hangs() -> None:
    waiting = Waiting(10)
    assert not waiting.go(SIBLING_S - 1, "gw1 since 12:00", sibling=True).over
    assert waiting.go(1, "gw1 since 12:00", sibling=True).hangs
    assert waiting.patience.over
    assert waiting.patience.sibling_s == SIBLING_S


def test_a_long_timeout_also_limits_the_wait_for_own_workers() -> None:
    waiting = Waiting(3 * SIBLING_S)
    assert not waiting.go(3 * SIBLING_S - 1, "gw1", sibling=True).over
    assert waiting.go(1, "gw1", sibling=True).hangs


def test_a_timeout_of_zero_does_not_wait_for_other_runs() -> None:
    waiting = Waiting(0)
    assert waiting.go(0, "alice").over
    assert not Waiting(0).go(1, "gw1", sibling=True).over
