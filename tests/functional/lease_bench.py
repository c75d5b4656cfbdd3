"""A real labgrid coordinator, and exporter, that tests kill and start again at will; and runners that take places."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gate_bench import BIN, wait_until

from pytest_pinet.lab.coordinator import Coordinator
from pytest_pinet.lab.identity import Identity
from pytest_pinet.lab.lease import Leases

PLACES = ("pi1", "pi2", "pi3", "pi4", "pi5", "pi6")
# No place has a resource of an exporter, but this one.
SERVED = "pi6"


class LabgridServer:
    """A coordinator with six places, at one address for all its lives, and the exporter of one of them."""

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
        """All that the coordinator has printed."""
        return (self.folder / "coordinator.log").read_text()

    def start(self) -> None:
        """Start the coordinator, where it was before."""
        said = len(self.log) if (self.folder / "coordinator.log").exists() else 0
        self._coordinator = self._spawn("coordinator", "-l", self.address)
        self._await(lambda: "listening on" in self.log[said:], self._coordinator)
        self.address = self.log[said:].partition("listening on ")[2].split()[0]

    def start_exporter(self) -> None:
        """Start the exporter and wait until it serves."""
        log = self.folder / "exporter.log"
        said = len(log.read_text()) if log.exists() else 0
        words = ("-c", self.address, "-n", "shelf", "--hostname", "127.0.0.1", "exporter.yaml")
        self._exporter = self._spawn("exporter", *words)
        self._await(lambda: "creating poll task" in log.read_text()[said:], self._exporter)

    def _spawn(self, tool: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{tool}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"labgrid.remote.{tool}", *words],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def _await(self, ready: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + 20
        while not ready():
            assert process.poll() is None, f"{process.args!r} ended early"
            assert time.monotonic() < deadline, f"{process.args!r} is not ready"
            time.sleep(0.02)

    def kill(self) -> None:
        """The coordinator, without a word."""
        _kill(self._coordinator)
        self._coordinator = None

    def kill_exporter(self) -> None:
        _kill(self._exporter)
        self._exporter = None

    def stop(self) -> None:
        self.kill_exporter()
        self.kill()

    def alice(self, place: str, *command: str) -> str:
        """Somebody who uses labgrid's own client, on another host."""
        environment = {**os.environ, "LG_HOSTNAME": "otherhost", "LG_USERNAME": "alice"}
        argv = [str(BIN / "labgrid-client"), "-x", self.address, "-p", place, *command]
        return subprocess.run(argv, env=environment, check=True, timeout=30, capture_output=True, text=True).stdout


@contextmanager
def labgrid_server(folder: Path, exporter: bool = False) -> Iterator[LabgridServer]:
    """A coordinator that runs, with its exporter if asked for, and stops in the end."""
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
    """A session of this process, by the name of this worker of this run."""
    coordinator = Coordinator(server.address, Identity.of_this_process(worker, run))
    try:
        yield coordinator
    finally:
        coordinator.close()


def leases(coordinator: Coordinator, told: list[str] | None = None) -> Leases:
    """Leases with nothing to leave; ``told`` gets what is waited for."""
    return Leases(coordinator, lambda places: None, (told if told is not None else []).append)


def await_loss(coordinator: Coordinator) -> None:
    """Wait until the connection is known to have ended."""
    wait_until("the connection to end", lambda: coordinator.lost, timeout_s=5)


def _kill(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.kill()
        process.wait(10)


# Takes places in its own order, many times, and says so. Before and after each use of a place it leaves a line in the
# coordinator's own log: a release that names somebody who cannot hold the place does nothing else.
RUNNER = """
import random, sys, time
from labgrid.remote.generated import labgrid_coordinator_pb2 as pb
from pytest_pinet.lab.coordinator import Coordinator
from pytest_pinet.lab.identity import Identity
from pytest_pinet.lab.lease import Leases

address, seed, rounds, host = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
identity = Identity.of_this_process(f"w{seed}")
if host != "here":
    # As seen from another machine: nobody can look whether its process lives.
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
    """A process that takes and gives back, and holds on to ``hold`` in the end."""
    command = [sys.executable, "-c", RUNNER, server.address, str(seed), str(rounds), host, *hold]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def await_holding(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    while "holding" not in (line := process.stdout.readline()):
        assert line, "the runner ended early"
