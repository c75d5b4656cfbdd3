"""A real labgrid coordinator and exporter that tests can kill and restart, and runners that acquire places."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_pinet.lab.labgrid.coordinator import Coordinator
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.lease import Leases
from tests.support.gate_project import BIN
from tests.support.waiting import wait_until

PLACES = ("pi1", "pi2", "pi3", "pi4", "pi5", "pi6")
# The only place with a resource of an exporter.
SERVED = "pi6"


class LabgridServer:
    """A coordinator with six places, always at the same address, and the exporter of one place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = "127.0.0.1:0"
        matches = {SERVED: "[{exporter: shelf, group: pi6, cls: '*'}]"}
        text = "".join(f"{p}: {{matches: {matches.get(p, '[]')}, tags: {{board: pi4b}}}}\n" for p in PLACES)
        (folder / "places.yaml").write_text(text)
        (folder / "exporter.yaml").write_text("pi6: {NetworkService: {address: 127.0.0.1, username: root}}\n")
        self._coordinator: subprocess.Popen[bytes] | None = None
        self._exporter: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """Return the coordinator's log."""
        return (self.folder / "coordinator.log").read_text()

    def start(self) -> None:
        """Start the coordinator, always at the same address."""
        said = len(self.log) if (self.folder / "coordinator.log").exists() else 0
        self._coordinator = self._spawn("coordinator", "-l", self.address)
        self._await(lambda: "listening on" in self.log[said:], self._coordinator)
        self.address = self.log[said:].partition("listening on ")[2].split()[0]

    def start_exporter(self, *options: str, prefix: Sequence[str] = ()) -> None:
        """Start the exporter, behind the command ``prefix``, and wait until it is ready."""
        log = self.folder / "exporter.log"
        said = len(log.read_text()) if log.exists() else 0
        words = ("-c", self.address, "-n", "shelf", "--hostname", "127.0.0.1", "exporter.yaml")
        self._exporter = self._spawn("exporter", *words, *options, prefix=prefix)
        self._await(lambda: "creating poll task" in log.read_text()[said:], self._exporter)

    def _spawn(self, tool: str, *words: str, prefix: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        with (self.folder / f"{tool}.log").open("ab") as log:
            return subprocess.Popen(
                [*prefix, sys.executable, "-m", f"labgrid.remote.{tool}", *words],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def _await(self, ready: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + 60
        while not ready():
            assert process.poll() is None, f"{process.args!r} ended early"
            assert time.monotonic() < deadline, f"{process.args!r} is not ready"
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the coordinator without a shutdown."""
        _kill(self._coordinator)
        self._coordinator = None

    def kill_exporter(self) -> None:
        _kill(self._exporter)
        self._exporter = None

    def stop(self) -> None:
        self.kill_exporter()
        self.kill()

    def alice(self, place: str, *command: str) -> str:
        """Run labgrid's own client as a user on another host."""
        environment = {**os.environ, "LG_HOSTNAME": "otherhost", "LG_USERNAME": "alice"}
        argv = [str(BIN / "labgrid-client"), "-x", self.address, "-p", place, *command]
        return subprocess.run(argv, env=environment, check=True, timeout=30, capture_output=True, text=True).stdout


@contextmanager
def labgrid_server(folder: Path, exporter: bool = False) -> Iterator[LabgridServer]:
    """Yield a running coordinator, with its exporter if requested."""
    server = LabgridServer(folder)
    try:
        server.start()
        if exporter:
            server.start_exporter()
        yield server
    finally:
        server.stop()


@contextmanager
def connected(server: LabgridServer, worker: str = "main", run: str = "0") -> Iterator[Coordinator]:
    """Yield a session of this process with the identity of this worker and run."""
    coordinator = Coordinator(server.address, Identity.of_this_process(worker, run))
    try:
        yield coordinator
    finally:
        coordinator.close()


def leases(coordinator: Coordinator, told: list[str] | None = None) -> Leases:
    """Return leases without a clean-up when places are released. ``told`` receives the waiting messages."""
    return Leases(coordinator, lambda places: None, (told if told is not None else []).append)


def await_loss(coordinator: Coordinator) -> None:
    """Wait until the loss of the connection is detected."""
    wait_until("the connection to end", lambda: coordinator.lost)


def _kill(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.kill()
        process.wait(10)


# Acquires places many times, in its own order. Before and after each use of a place it adds a line to the coordinator's
# log: a release for a user who cannot hold the place has no other effect.
RUNNER = """
import random, sys, time
from labgrid.remote.generated import labgrid_coordinator_pb2 as pb
from pytest_pinet.lab.labgrid.coordinator import Coordinator
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.lease import Leases

address, seed, rounds, host = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
identity = Identity.of_this_process(f"w{seed}")
if host != "here":
    # As seen from another machine, which cannot check whether this process lives.
    user = identity.user.split("-")
    identity = Identity(host, "-".join([*user[:4], "0123abcd", user[5]]))
coordinator = Coordinator(address, identity)
leases = Leases(coordinator, lambda places: None, lambda text: None)
rng = random.Random(seed)

def note(word, place):
    async def call():
        await coordinator.session.stub.ReleasePlace(
            pb.ReleasePlaceRequest(placename=place, fromuser=f"{word}/{identity}")
        )

    coordinator._run(call(), "a line in the log")

for _ in range(rounds):
    wanted = rng.sample(["pi1", "pi2", "pi3", "pi4", "pi5"], rng.choice([2, 3]))
    leases.acquire(wanted, 60)
    for place in wanted:
        note("begin", place)
    time.sleep(0.005)
    leases.check(wanted)
    for place in wanted:
        note("end", place)
    if rng.random() < 0.7:
        leases.release(leases.held)
leases.release(leases.held)
print("done", flush=True)
if len(sys.argv) > 5:
    leases.acquire(sys.argv[5:], 30)
    print("holding", flush=True)
    time.sleep(120)
coordinator.close()
"""


def runner(server: LabgridServer, seed: int, rounds: int, *hold: str, host: str = "here") -> subprocess.Popen[str]:
    """Start a process that acquires and releases places, and in the end holds ``hold``."""
    command = [sys.executable, "-c", RUNNER, server.address, str(seed), str(rounds), host, *hold]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def await_holding(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    while "holding" not in (line := process.stdout.readline()):
        assert line, "the runner ended early"
