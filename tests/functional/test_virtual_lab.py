"""The virtual lab as its users see it: real processes, consoles, ssh, PDU, links and faults."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.lab.launcher import launcher_of
from pytest_pinet.model.lab import Lab
from pytest_pinet.virtual.control_client import ask
from pytest_pinet.virtual.launcher import launcher
from pytest_pinet.virtual.processes import ProcessId
from pytest_pinet.virtual.runtime import Runtime
from pytest_pinet.virtual.status import ssh_command, status

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

LAB_FILE = """\
pinet:
  name: functional
  launcher: virtual
  switches:
    sw-1: {backend: linux, address: "ssh://root@127.0.0.1:1", ports: p1-p6}
  nodes:
    left:
      board: pi3b
      interfaces:
        onboard: {port: sw-1/p1}
    right:
      board: pi3b
      interfaces:
        onboard: {port: sw-1/p2}
    both:
      board: pi4b
      interfaces:
        onboard: {port: sw-1/p3}
        usb: {nic: ax88179, port: sw-1/p4}
"""
MODEL_MBPS = 94.1


def wait_until(what: str, condition: Callable[[], bool], timeout_s: float = 5.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout_s:g} s still waiting for {what}")
        time.sleep(0.02)


class Bench:
    """A running lab and the few things that tests do with it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.runtime = Runtime.of(lab.file)
        self.environment = dict(launcher().up(lab))

    def ports(self) -> dict[str, Any]:
        ports = self.runtime.read_json("ports.json")
        assert ports is not None
        return ports

    def outlet(self, node: str, value: str | None = None) -> str:
        index = list(self.lab.nodes).index(node) + 1
        url = f"http://127.0.0.1:{self.ports()['pdu']}/relay/{index}/value"
        data = value.encode() if value is not None else None
        with urlopen(Request(url, data=data, method="PUT" if data else "GET"), timeout=20) as answer:
            return str(answer.read().decode())

    def ssh(self, node: str, command: str, timeout_s: float = 20.0) -> str:
        argv = ssh_command(self.lab.file, node, [command])
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
        assert done.returncode == 0, f"{node}: {command}: {done.stdout}{done.stderr}"
        return done.stdout

    def boot(self, *nodes: str) -> None:
        for node in nodes:
            self.outlet(node, "1")
        for node in nodes:
            wait_until(f"ssh of {node}", lambda node=node: self.answers(node))  # type: ignore[misc]

    def answers(self, node: str) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.ports()["nodes"][node]["ssh"]), timeout=0.5) as sock:
                return sock.recv(4) == b"SSH-"
        except OSError:
            return False

    def switch(self, command: str) -> str:
        address = self.environment["LG_SWITCH_SW_1"].removeprefix("ssh://root@127.0.0.1:")
        argv = ["ssh", "-F", "none", "-i", self.environment["LG_KEYFILE"], "-p", address]
        argv += ["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oLogLevel=ERROR"]
        return subprocess.run(
            [*argv, "root@127.0.0.1", command], capture_output=True, text=True, timeout=20, check=True
        ).stdout

    def carrier(self, port: str) -> bool:
        return self.switch(f"cat /sys/class/net/{port}/carrier").strip() == "1"

    def node_carrier(self, node: str) -> bool:
        return self.ssh(node, "cat /sys/class/net/eth0/carrier").strip() == "1"

    def degrade(self, target: str, **faults: Any) -> None:
        ask(self.runtime.control, "degrade", target=target, **faults)

    def restore(self, target: str | None = None) -> None:
        ask(self.runtime.control, "restore", target=target)

    def pings(self, target: str = "right") -> bool:
        address = {"right": "10.1.0.2", "left": "10.1.0.1"}[target]
        source = {"right": "left", "left": "right"}[target]
        argv = ssh_command(self.lab.file, source, [f"ping -c1 -W1 {address}"])
        return subprocess.run(argv, capture_output=True, timeout=10, check=False).returncode == 0

    def iperf(self, options: str = "") -> dict[str, Any]:
        """From left to right; Mbit/s at the receiver and retransmits."""
        self.ssh("right", "iperf3 -s -1 -D -B 10.1.0.2; timeout 5 sh -c 'until ss -ltn | grep -q :5201; do :; done'")
        end = json.loads(self.ssh("left", f"iperf3 -c 10.1.0.2 -t 2 -C cubic -J {options}"))["end"]
        return {"mbps": end["sum_received"]["bits_per_second"] / 1e6, "lost": end["sum_sent"].get("retransmits", 0)}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    file = tmp_path_factory.mktemp("bench") / "lab.yaml"
    file.write_text(LAB_FILE)
    lab = load(file)
    found = Bench(lab)
    try:
        yield found
    finally:
        launcher().down(lab)


@pytest.fixture
def pair(bench: Bench) -> Iterator[Bench]:
    """left and right are on and have addresses."""
    bench.boot("left", "right")
    bench.ssh("left", "ip addr replace 10.1.0.1/24 dev eth0")
    bench.ssh("right", "ip addr replace 10.1.0.2/24 dev eth0")
    wait_until("right to answer", bench.pings)
    yield bench
    bench.restore()


def console(bench: Bench, node: str) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", bench.ports()["nodes"][node]["console"]), timeout=5)
    sock.settimeout(5)
    return sock


def expect(sock: socket.socket, pattern: bytes) -> bytes:
    seen = b""
    while re.search(pattern, seen) is None:
        try:
            chunk = sock.recv(4096)
        except TimeoutError:
            raise AssertionError(f"the console did not show {pattern!r} but {seen!r}") from None
        assert chunk, f"the console closed after {seen!r}"
        seen += chunk
    return seen


def test_the_launcher_of_the_lab_file_is_this_one(bench: Bench) -> None:
    found = launcher_of(bench.lab)
    assert found is not None
    assert found.find(bench.lab) == bench.environment
    assert set(bench.environment) == {"LG_COORDINATOR", "LG_KEYFILE", "LG_SWITCH_SW_1"}


def test_a_second_up_finds_the_first(bench: Bench) -> None:
    before = bench.runtime.read_json("state.json")
    assert launcher().up(bench.lab) == bench.environment
    assert bench.runtime.read_json("state.json") == before


def test_a_lab_file_with_other_cables_is_not_taken_for_the_lab_that_runs(bench: Bench) -> None:
    file = Path(bench.lab.file)
    file.write_text(LAB_FILE.replace("sw-1/p2", "sw-1/p5"))
    try:
        with pytest.raises(LabError, match="changed since it was started"):
            launcher().up(load(file))
    finally:
        file.write_text(LAB_FILE)


def test_the_coordinator_has_the_places_with_tags_and_resources(bench: Bench) -> None:
    argv = [sys.executable, "-m", "labgrid.remote.client", "-x", bench.environment["LG_COORDINATOR"]]
    places = subprocess.run([*argv, "places"], capture_output=True, text=True, timeout=20, check=True).stdout
    assert {"left", "right", "both"} <= set(places.split())
    shown = subprocess.run([*argv, "-p", "both", "show"], capture_output=True, text=True, timeout=20, check=True).stdout
    assert "board=pi4b" in shown
    assert shown.count("EthernetPort") >= 2
    for word in ("'interface': 'p4'", "'model': 'rest'", "'protocol': 'raw'", "NetworkService"):
        assert word in shown


def test_a_node_boots_and_a_person_logs_in_over_the_console(bench: Bench) -> None:
    bench.outlet("left", "0")
    with console(bench, "left") as sock:
        started = time.monotonic()
        bench.outlet("left", "1")
        seen = expect(sock, rb"left login: $")
        took = time.monotonic() - started
        assert b"Booting Linux" in seen
        assert b"Raspberry Pi 3" in seen
        sock.sendall(b"root\n")
        expect(sock, rb"Password: $")
        sock.sendall(b"raspberry\n")
        expect(sock, rb"root@left:~# $")
        sock.sendall(b"hostname; echo $$ end\n")
        assert re.search(rb"left\r\n\d+ end", expect(sock, rb"\d+ end"))
        sock.sendall(b"exit\n")
        expect(sock, rb"left login: $")
    assert took < 2.0
    assert b"Booting Linux" in (bench.runtime.path / "console-left.log").read_bytes()


def test_a_wrong_password_is_refused(bench: Bench) -> None:
    bench.boot("left")
    with console(bench, "left") as sock:
        sock.sendall(b"root\n")
        expect(sock, rb"Password: $")
        sock.sendall(b"guess\n")
        expect(sock, rb"Login incorrect")


def test_a_node_has_its_own_view_of_the_machine(bench: Bench) -> None:
    bench.boot("both")
    assert bench.ssh("both", "hostname").strip() == "both"
    assert bench.ssh("both", "cat /proc/1/comm").strip() == "sh"
    assert set(bench.ssh("both", "ls /sys/class/net").split()) >= {"lo", "eth0", "eth1"}
    assert bench.ssh("both", "cat /sys/class/net/eth1/speed /sys/class/net/eth1/duplex").split() == ["1000", "full"]
    assert bench.ssh("both", "touch /usr/mark 2>&1 || echo read-only").strip().endswith("read-only")
    assert bench.ssh("both", "touch /root/mark /tmp/mark && echo written").strip() == "written"
    assert bench.ssh("both", "sysctl -n net.ipv4.tcp_timestamps").strip() == "1"


def test_nothing_of_a_boot_survives_the_next(bench: Bench) -> None:
    bench.boot("both")
    bench.ssh("both", "touch /root/mark; ip addr add 10.7.7.7/24 dev eth0; sysctl -qw net.ipv4.tcp_timestamps=0")
    mac = bench.ssh("both", "cat /sys/class/net/eth0/address")
    bench.outlet("both", "0")
    bench.boot("both")
    assert bench.ssh("both", "ls /root; sysctl -n net.ipv4.tcp_timestamps").split() == ["1"]
    assert "10.7.7.7" not in bench.ssh("both", "ip addr")
    assert bench.ssh("both", "cat /sys/class/net/eth0/address") == mac


def test_power_off_kills_every_process_and_drops_the_carrier(pair: Bench) -> None:
    machines = pair.runtime.read_json("machines.json")
    assert machines is not None
    assert pair.carrier("p2")
    session = subprocess.Popen(ssh_command(pair.lab.file, "right", ["sleep 1000"]))
    wait_until("the session", lambda: "sleep 1000" in pair.ssh("right", "ps ax"))
    pair.outlet("right", "0")
    assert pair.outlet("right") == "0"
    assert session.wait(timeout=5) == 255
    assert not pair.carrier("p2")
    assert not pair.pings()
    assert not pair.answers("right")
    with console(pair, "right") as sock:
        sock.sendall(b"\n")  # still accepts, and says nothing
        sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            sock.recv(1)
    pair.outlet("right", "1")
    wait_until("the carrier", lambda: pair.carrier("p2"))


def test_the_pdu_refuses_what_is_no_outlet(bench: Bench) -> None:
    for path, method in (("/relay/99/value", "GET"), ("/", "GET"), ("/relay/1/value", "DELETE")):
        with pytest.raises(OSError, match="HTTP Error 40"):
            urlopen(Request(f"http://127.0.0.1:{bench.ports()['pdu']}{path}", method=method), timeout=5)


def test_the_switch_is_a_linux_bridge_with_all_its_ports(pair: Bench) -> None:
    assert pair.switch("hostname").strip() == "sw-1"
    links = json.loads(pair.switch("ip -json link show master br0"))
    assert {link["ifname"] for link in links} == {f"p{n}" for n in range(1, 7)}
    assert pair.switch("cat /sys/class/net/p1/speed").strip() == "100"
    assert not pair.carrier("p6")
    pair.switch("ip link set p2 down")
    assert not pair.node_carrier("right")
    pair.switch("ip link set p2 up")
    assert pair.node_carrier("right")


def test_a_100_mbit_link_gives_what_its_model_says(pair: Bench) -> None:
    assert pair.iperf()["mbps"] == pytest.approx(MODEL_MBPS, rel=0.02)


def test_a_degraded_direction_is_slower_and_the_other_is_not(pair: Bench) -> None:
    pair.degrade("left", rate=0.5, direction="tx")
    assert pair.iperf()["mbps"] == pytest.approx(0.5 * MODEL_MBPS, rel=0.02)
    assert pair.iperf("-R")["mbps"] == pytest.approx(MODEL_MBPS, rel=0.02)


def test_loss_shows_as_retransmits(pair: Bench) -> None:
    pair.degrade("left", loss=0.02, direction="tx")
    assert pair.iperf()["lost"] > 5


def test_a_pulled_cable_has_no_carrier_whatever_the_ends_do(pair: Bench) -> None:
    pair.switch("ip link add b2 type bridge; ip link set b2 up; ip link set p1 master b2")
    pair.degrade("right:onboard", down=True)
    assert not pair.carrier("p2")
    assert not pair.node_carrier("right")
    pair.switch("ip link set p2 master b2 up")
    pair.ssh("right", "ip link set eth0 down; ip link set eth0 up")
    assert not pair.carrier("p2")
    assert not pair.pings()
    pair.outlet("right", "0")
    pair.boot("right")
    assert not pair.node_carrier("right")
    pair.restore("right")
    assert pair.node_carrier("right")
    assert "master b2" in pair.switch("ip link show p2")
    assert pair.switch("cat /sys/class/net/p2/speed").strip() == "100"
    pair.ssh("right", "ip addr replace 10.1.0.2/24 dev eth0")
    wait_until("right to answer", pair.pings)
    assert pair.iperf("-R")["mbps"] == pytest.approx(MODEL_MBPS, rel=0.02)
    pair.switch("ip link set p1 master br0; ip link set p2 master br0; ip link del b2")


def test_a_frozen_node_is_silent_until_it_is_restored(pair: Bench) -> None:
    pair.degrade("right", freeze=True)
    assert pair.carrier("p2")
    assert not pair.pings()
    with console(pair, "right") as sock:
        sock.sendall(b"\n")
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        pair.outlet("right", "0")
        pair.outlet("right", "1")
        assert pair.outlet("right") == "1"
        with pytest.raises(TimeoutError):
            sock.recv(1)
        assert not pair.answers("right")
        pair.restore("right")
        sock.settimeout(5)
        expect(sock, rb"right login: $")


def test_a_frozen_node_goes_on_where_it_stopped(pair: Bench) -> None:
    session = subprocess.Popen(
        ssh_command(pair.lab.file, "right", ["cat"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert session.stdin is not None
    assert session.stdout is not None
    session.stdin.write("before\n")
    session.stdin.flush()
    assert session.stdout.readline() == "before\n"
    pair.degrade("right", freeze=True)
    pair.restore("right")
    out, _ = session.communicate("after\n", timeout=5)
    assert out == "after\n"
    wait_until("right to answer", pair.pings)


def test_a_wrong_name_is_one_sentence_with_the_nearest(bench: Bench) -> None:
    with pytest.raises(ConfigError, match=r"^no node is called 'rigth', did you mean 'right'\?$"):
        bench.degrade("rigth", rate=0.9)
    with pytest.raises(ConfigError, match="no interface of both is called 'usv', did you mean 'usb'"):
        bench.degrade("both:usv", rate=0.9)


def test_the_host_sees_nothing_but_loopback_ports(bench: Bench) -> None:
    state = bench.runtime.read_json("state.json")
    assert state is not None
    daemon = ProcessId(**state["processes"]["daemon"])
    names = {path.name for path in Path("/sys/class/net").iterdir()}
    assert not names & {"br0", "p1", "p2", "p3", "p4", "eth1"} - {"eth1"}
    listening = subprocess.run(["ss", "-Hltnup"], capture_output=True, text=True, timeout=10, check=True).stdout
    ours = [line.split()[4] for line in listening.splitlines() if f"pid={daemon.pid}," in line]
    assert ours
    assert all(address.startswith("127.0.0.1:") for address in ours)


def test_status_tells_faults(bench: Bench) -> None:
    bench.degrade("both:usb", rate=0.9, direction="rx")
    found = status(bench.lab.file)
    assert found is not None
    (entry,) = [node for node in found["nodes"] if node["name"] == "both"]
    assert entry["interfaces"][1]["faults"] == ["rx rate 90%"]
    assert entry["interfaces"][1]["model"] == "usb3-ax88179"
    bench.restore("both")
