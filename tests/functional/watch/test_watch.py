"""``pinet watch`` on virtual boards: it sees what happens, forgets nothing when killed, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pytest_pinet.virtual.runtime import ssh_command
from tests.support.gate_project import PINET, GateLab
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
BOARDS = (LEFT, RIGHT) = ("pi4b-1", "pi4b-2")


class Pair(NamedTuple):
    """Two boards that are on and reach each other."""

    lab: GateLab

    def ssh(self, node: str, command: str) -> str:
        return self.lab.execute(node, command)

    def loops(self, node: str) -> int:
        """Return how many processes of a watch run at a board."""
        return int(self.ssh(node, "ps -e -o args | grep -c '[/]sys/class/net' || true"))

    def boot(self) -> None:
        self.lab.switch_power(True, *BOARDS)
        self.lab.await_boot(*BOARDS)
        for number, node in enumerate(BOARDS, start=1):
            self.ssh(node, f"ip link set eth0 up; ip addr replace 10.1.0.{number}/24 dev eth0")
        self.ssh(LEFT, "until ping -c1 -W1 10.1.0.2; do :; done")


@pytest.fixture
def pair(gate_lab: GateLab) -> Iterator[Pair]:
    on = gate_lab.nodes_on()
    found = Pair(gate_lab)
    found.boot()
    yield found
    gate_lab.restore()
    gate_lab.switch_power(False, *{*BOARDS} - on)


class Watch:
    """A running ``pinet watch`` of both boards."""

    def __init__(self, pair: Pair, folder: Path, *words: str) -> None:
        self.folder = folder
        self._earlier = len(self.records("begin"))
        argv = [PINET, "watch", str(folder), *BOARDS, "--lab", str(pair.lab.file), *words]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def records(self, what: str) -> list[dict[str, Any]]:
        path = self.folder / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [record for line in lines if (record := json.loads(line))["what"] == what]

    def signs(self, kind: str, over: bool = False) -> list[dict[str, Any]]:
        return [one for one in self.records("sign") if one["kind"] == kind and bool(one.get("over")) is over]

    def await_samples(self) -> None:
        """Wait until this watch runs, and both boards were seen by it or an earlier one."""
        wait_until("the watch to begin", lambda: len(self.records("begin")) > self._earlier)
        wait_until("both boards to be seen", lambda: {one["node"] for one in self.records("boot")} >= {*BOARDS})

    def end(self) -> str:
        self.process.send_signal(signal.SIGINT)
        output, errors = self.process.communicate(timeout=180)
        assert "Traceback" not in errors, errors
        return output


@contextmanager
def watched(pair: Pair, folder: Path) -> Iterator[Watch]:
    watch = Watch(pair, folder)
    try:
        watch.await_samples()
        yield watch
    finally:
        if watch.process.poll() is None:
            watch.process.kill()
        watch.process.communicate()


@contextmanager
def pinging(pair: Pair) -> Iterator[None]:
    """Let left ping right five times a second."""
    argv = ssh_command(str(pair.lab.file), LEFT, ["exec ping -q -i 0.2 10.1.0.2"])
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()
        pair.ssh(LEFT, "pkill -x ping || true")


def await_packets(pair: Pair, packets: int = 100) -> None:
    """Wait until so many packets have arrived, which takes 20 s: both boards know then that right receives."""

    def received() -> int:
        return int(pair.ssh(RIGHT, "cat /sys/class/net/eth0/statistics/rx_packets"))

    wanted = received() + packets
    wait_until(f"{packets} packets", lambda: received() >= wanted)


def test_a_cable_that_is_pulled_is_a_drop_and_ctrl_c_ends_with_the_report(pair: Pair, tmp_path: Path) -> None:
    with watched(pair, tmp_path) as watch:
        assert pair.loops(LEFT) > 0
        pair.lab.degrade(f"{LEFT}:onboard", "--down")
        wait_until("the drop", lambda: watch.signs("link drop"))
        pair.lab.restore()
        wait_until("the carrier", lambda: watch.signs("link drop", over=True))
        output = watch.end()
        assert watch.process.returncode == 1
    assert f"{LEFT}: link drop" in output
    assert "0 stalls in " in output
    assert "1 link drop in " in output
    for node in BOARDS:
        wait_until(f"the loop at {node} to end", lambda node=node: pair.loops(node) == 0)  # type: ignore[misc]
    again = subprocess.run([PINET, "watch", str(tmp_path), "--report"], capture_output=True, text=True, timeout=180)
    assert (again.stdout, again.returncode) == (output, 1)


def test_a_board_that_receives_nothing_while_its_peer_sends_stalls(pair: Pair, tmp_path: Path) -> None:
    with pinging(pair), watched(pair, tmp_path) as watch:
        await_packets(pair)
        pair.lab.degrade(f"{RIGHT}:onboard", "--loss", "100%", "--direction", "rx")
        wait_until("the stall", lambda: watch.signs("stall"))
        pair.lab.restore()
        wait_until("its end", lambda: watch.signs("stall", over=True))
        (stall,) = watch.signs("stall")
        assert stall["node"] == RIGHT
        assert "receives nothing, while pi4b-1 eth0 sends" in stall["text"]
        assert "1 stall in " in watch.end()


def test_a_board_that_sends_nothing_while_its_queue_fills_stalls(pair: Pair, tmp_path: Path) -> None:
    with pinging(pair), watched(pair, tmp_path) as watch:
        await_packets(pair)
        # The first packet takes all of the bucket, and the next one has to wait for minutes.
        pair.ssh(LEFT, "tc qdisc replace dev eth0 root tbf rate 8bit burst 200 limit 1m")
        wait_until("the stall", lambda: [one for one in watch.signs("stall") if one["part"].endswith("tx")])
        pair.ssh(LEFT, "tc qdisc del dev eth0 root")
        wait_until("its end", lambda: [one for one in watch.signs("stall", over=True) if one["part"].endswith("tx")])
        assert "wait in its queue" in watch.signs("stall")[0]["text"]


def test_a_watch_that_is_killed_goes_on_and_forgets_nothing(pair: Pair, tmp_path: Path) -> None:
    with watched(pair, tmp_path) as watch:
        pair.lab.degrade(f"{LEFT}:onboard", "--down")
        wait_until("the drop", lambda: watch.signs("link drop"))
        watch.process.kill()
        watch.process.wait()
        pair.lab.restore()
        wait_until("the loop to end with its runner", lambda: pair.loops(LEFT) == 0)
    with watched(pair, tmp_path) as watch:
        busy = subprocess.run(
            [PINET, "watch", str(tmp_path), "--lab", str(pair.lab.file), *BOARDS],
            capture_output=True, text=True, timeout=180,
        )  # fmt: skip
        assert busy.returncode == 4
        assert "another `pinet watch` writes to" in busy.stderr
        output = watch.end()
        assert len(watch.records("begin")) == 2
    assert "1 link drop in " in output
    other = subprocess.run(
        [PINET, "watch", str(tmp_path), "--lab", str(pair.lab.file), LEFT], capture_output=True, text=True, timeout=180
    )
    assert (other.returncode, "of other boards" in other.stderr) == (4, True)


def test_a_board_that_is_booted_is_watched_on(pair: Pair, tmp_path: Path) -> None:
    with watched(pair, tmp_path) as watch:
        pair.lab.switch_power(False, LEFT)
        wait_until("the silence", lambda: watch.signs("silence"))
        pair.boot()
        wait_until("the boot", lambda: watch.signs("reboot", over=True))
        wait_until("the samples of the new boot", lambda: watch.signs("silence", over=True))
        output = watch.end()
    assert "1 reboot in " in output
    # The silence is a part of the boot.
    assert " silence in " not in output
