"""Leases against a real labgrid coordinator: all or none, no deadlock, nothing left behind."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.errors import CoordinatorError, LeaseError
from pytest_pinet.lab.coordinator import Coordinator
from pytest_pinet.lab.identity import Identity
from pytest_pinet.lab.lease import Leases

PLACES = ("pi1", "pi2", "pi3")

# A process that takes places in its own order, many times, and says so; dies with its places when told to hang.
RUNNER = """
import random, sys, time
from pytest_pinet.lab.coordinator import Coordinator
from pytest_pinet.lab.identity import Identity
from pytest_pinet.lab.lease import Leases
address, seed, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
c = Coordinator(address, Identity.of_this_process(f"w{seed}"))
leases = Leases(c, lambda places: None, lambda text: None)
rng = random.Random(seed)
for _ in range(rounds):
    wanted = rng.sample(["pi1", "pi2", "pi3"], 2)
    leases.acquire(wanted, 30)
    leases.check(wanted)
    if rng.random() < 0.7:
        leases.release(leases.held)
leases.release(leases.held)
print("done", flush=True)
if len(sys.argv) > 4:
    leases.acquire(["pi2"], 30)
    print("holding", flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("coordinator")
    (folder / "places.yaml").write_text("".join(f"{p}: {{matches: [], tags: {{}}}}\n" for p in PLACES))
    command = [str(Path(sys.executable).parent / "labgrid-coordinator"), "-l", "127.0.0.1:0"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "listening on" in line:
                yield line.split()[-1]
                break
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


@pytest.fixture
def coordinator(address: str) -> Iterator[Coordinator]:
    opened = Coordinator(address, Identity.of_this_process("main"))
    yield opened
    opened.close()


def leases(coordinator: Coordinator, told: list[str] | None = None) -> Leases:
    return Leases(coordinator, lambda places: None, (told if told is not None else []).append)


def runner(address: str, seed: int, rounds: int, *hang: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUNNER, address, str(seed), str(rounds), *hang]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def stock_client(address: str, *command: str) -> None:
    """Somebody who uses labgrid's own client, on another host."""
    client = str(Path(sys.executable).parent / "labgrid-client")
    environment = {**os.environ, "LG_HOSTNAME": "otherhost", "LG_USERNAME": "alice"}
    subprocess.run([client, "-x", address, "-p", "pi2", *command], env=environment, check=True, timeout=30)


def test_a_lease_is_seen_by_the_coordinator_and_given_back(coordinator: Coordinator) -> None:
    own = leases(coordinator)
    own.acquire(["pi2", "pi1"], 5)
    assert own.held == {"pi1", "pi2"}
    assert coordinator.holder("pi1") == coordinator.identity
    own.check(["pi1", "pi2"])
    own.release(["pi1"])
    coordinator.sync()
    assert coordinator.holder("pi1") is None
    own.release(own.held)


def test_waiting_says_for_what_and_ends_with_everything_given_back(coordinator: Coordinator, address: str) -> None:
    stock_client(address, "acquire", "--allow-unmatched")
    told: list[str] = []
    own = leases(coordinator, told)
    started = time.monotonic()
    with pytest.raises(LeaseError, match=r"waited \d s for place pi2, held by otherhost/alice\n  -> ask alice on oth"):
        own.acquire(["pi1", "pi2", "pi3"], 1.0)
    assert time.monotonic() - started < 5
    assert told[0].startswith("waiting for place pi2: held by otherhost/alice for 0 s (timeout 1 s)")
    assert own.held == set()
    coordinator.sync()
    assert coordinator.holder("pi1") is None
    stock_client(address, "release")


def test_a_lost_place_is_noticed(coordinator: Coordinator) -> None:
    own = leases(coordinator)
    own.acquire(["pi1"], 5)
    coordinator.release("pi1", coordinator.identity)
    with pytest.raises(LeaseError, match="place pi1 was lost during the test, now held by nobody"):
        own.check(["pi1"])
    assert own.held == set()


def test_an_unknown_place_names_those_that_there_are(coordinator: Coordinator) -> None:
    with pytest.raises(LeaseError, match=r"has no place 'pi9' \(it has: pi1, pi2, pi3\)"):
        leases(coordinator).acquire(["pi9"], 1)


def test_runners_with_overlapping_wishes_all_finish(address: str, coordinator: Coordinator) -> None:
    runners = [runner(address, seed, 30) for seed in range(3)]
    for process in runners:
        output, _ = process.communicate(timeout=90)
        assert output.splitlines()[-1:] == ["done"], output
    coordinator.sync()
    assert [coordinator.holder(place) for place in PLACES] == [None, None, None]


def test_a_killed_holder_is_succeeded_at_once(address: str, coordinator: Coordinator) -> None:
    process = runner(address, 7, 0, "hang")
    assert process.stdout is not None
    while "holding" not in (line := process.stdout.readline()):
        assert line, "the runner ended early"
    process.kill()
    process.communicate()
    own = leases(coordinator)
    started = time.monotonic()
    own.acquire(["pi2"], 10)
    assert time.monotonic() - started < 3
    own.release(own.held)


def test_no_coordinator_is_one_sentence() -> None:
    with pytest.raises(CoordinatorError, match=r"coordinator answers at 127.0.0.1:1\b"):
        Coordinator("127.0.0.1:1", Identity.of_this_process())
