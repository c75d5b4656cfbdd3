"""The virtual lab as users see it: real processes, consoles, ssh, PDU, links and faults."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.lab.launcher import launcher_of
from pytest_pinet.virtual.launcher import launcher
from pytest_pinet.virtual.runtime import ssh_command, status
from pytest_pinet.virtual.spec import mac_address
from tests.support.small_virtual_lab import (
    FULL_MBPS,
    LAB_FILE,
    LEAST,
    MOST,
    Bench,
    console,
    expect,
    host_devices,
    log_in,
    processes,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


def test_the_lab_file_selects_the_virtual_launcher(bench: Bench) -> None:
    found = launcher_of(bench.lab)
    assert found is not None
    assert found.find(bench.lab) == bench.environment
    assert set(bench.environment) == {"LG_COORDINATOR", "LG_KEYFILE", "LG_CONSOLE_PASSWORD", "LG_SWITCH_SW_1"}


def test_a_second_up_finds_the_running_lab(bench: Bench) -> None:
    before = bench.runtime.read_json("state.json")
    assert launcher().up(bench.lab) == bench.environment
    assert bench.runtime.read_json("state.json") == before


def test_a_changed_lab_file_is_refused_while_the_lab_runs(bench: Bench) -> None:
    file = Path(bench.lab.file)
    file.write_text(LAB_FILE.replace("sw-1/p2", "sw-1/p5"))
    try:
        with pytest.raises(LabError, match="changed after the virtual lab was started"):
            launcher().up(load(file))
    finally:
        file.write_text(LAB_FILE)


def test_the_coordinator_has_the_places_with_tags_and_resources(bench: Bench) -> None:
    argv = [sys.executable, "-m", "labgrid.remote.client", "-x", bench.environment["LG_COORDINATOR"]]
    places = subprocess.run([*argv, "places"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert {"left", "right", "both"} <= set(places.split())
    shown = subprocess.run([*argv, "-p", "both", "show"], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "board=pi4b" in shown
    assert shown.count("EthernetPort") >= 2
    for word in ("'interface': 'p4'", "'model': 'rest'", "'protocol': 'raw'", "NetworkService"):
        assert word in shown


def test_a_user_logs_in_over_the_console_of_a_booted_node(bench: Bench) -> None:
    bench.outlet("left", "0")
    with console(bench, "left") as sock:
        bench.outlet("left", "1")
        seen = expect(sock, rb"left login: $")
        assert b"Booting Linux" in seen
        assert b"Raspberry Pi 3" in seen
        sock.sendall(b"\n")
        expect(sock, rb"left login: $")
        log_in(sock, bench.environment["LG_CONSOLE_PASSWORD"])
        expect(sock, rb"root@left:~# $")
        sock.sendall(b"hostname; echo $$ end\n")
        assert re.search(rb"left\r\n\d+ end", expect(sock, rb"\d+ end"))
        sock.sendall(b"exit\n")
        expect(sock, rb"left login: $")
        log_in(sock, "raspberry")
        expect(sock, rb"Login incorrect")
    assert b"Booting Linux" in (bench.runtime.path / "console-left.log").read_bytes()


def test_a_node_has_its_own_view_of_the_machine(bench: Bench) -> None:
    bench.boot("both")
    assert bench.ssh("both", "hostname").strip() == "both"
    assert bench.ssh("both", "cat /proc/1/comm").strip() == "sh"
    assert set(bench.ssh("both", "ls /sys/class/net").split()) >= {"lo", "eth0", "eth1"}
    assert bench.ssh("both", "cat /sys/class/net/eth1/speed /sys/class/net/eth1/duplex").split() == ["1000", "full"]
    assert bench.ssh("both", "touch /usr/mark 2>&1 || echo read-only").strip().endswith("read-only")
    assert bench.ssh("both", "touch /root/mark /tmp/mark && echo written").strip() == "written"
    assert bench.ssh("both", "sysctl -n net.ipv4.tcp_timestamps").strip() == "1"


def test_no_setting_survives_a_boot(bench: Bench) -> None:
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
    assert session.wait(timeout=60) == 255
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


def test_a_board_that_shuts_itself_down_stays_dark_until_a_power_cycle(pair: Bench) -> None:
    with console(pair, "right") as sock:
        pair.ssh("right", "(sleep 0.3; poweroff) >/dev/null 2>&1 &")
        expect(sock, rb"\[ +\d+\.\d+\] reboot: Power down")
    wait_until("the end of its link", lambda: not pair.carrier("p2"))
    assert not pair.answers("right")
    # Its outlet still has power, so "on" alone does not boot it.
    assert pair.outlet("right") == "1"
    pair.outlet("right", "1")
    assert not pair.answers("right")
    pair.outlet("right", "0")
    pair.boot("right")
    wait_until("the carrier", lambda: pair.carrier("p2"))


def test_the_pdu_refuses_unknown_outlets(bench: Bench) -> None:
    for path, method in (("/relay/99/value", "GET"), ("/", "GET"), ("/relay/1/value", "DELETE")):
        with pytest.raises(OSError, match="HTTP Error 40"):
            urlopen(Request(f"http://127.0.0.1:{bench.ports()['pdu']}{path}", method=method), timeout=60)


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


def test_a_link_has_the_rate_of_its_model_and_a_degraded_direction_is_slower(pair: Bench) -> None:
    assert LEAST * FULL_MBPS < pair.iperf()["mbps"] < MOST * FULL_MBPS
    pair.degrade("left", rate=0.5, direction="tx")
    assert LEAST * FULL_MBPS / 2 < pair.iperf()["mbps"] < MOST * FULL_MBPS / 2
    assert LEAST * FULL_MBPS < pair.iperf("-R")["mbps"] < MOST * FULL_MBPS


def test_loss_causes_retransmits(pair: Bench) -> None:
    pair.degrade("left", loss=0.02, direction="tx")
    assert pair.iperf()["lost"] > 0


def test_no_setting_gives_a_pulled_cable_a_carrier(pair: Bench) -> None:
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
    assert LEAST * FULL_MBPS < pair.iperf("-R")["mbps"] < MOST * FULL_MBPS
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
        sock.settimeout(20)
        expect(sock, rb"right login: $")


def test_a_frozen_node_continues_where_it_stopped(pair: Bench) -> None:
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
    out, _ = session.communicate("after\n", timeout=60)
    assert out == "after\n"
    wait_until("right to answer", pair.pings)


def test_an_unknown_name_is_refused_with_the_nearest_one(bench: Bench) -> None:
    with pytest.raises(ConfigError, match=r"^unknown part of the lab 'rigth', did you mean 'right'\?"):
        bench.degrade("rigth", rate=0.9)
    with pytest.raises(ConfigError, match="unknown interface 'usv' in node both, did you mean 'usb'"):
        bench.degrade("both:usv", rate=0.9)


def test_the_host_gets_no_network_device(bench: Bench) -> None:
    bench.boot("left", "right", "both")
    of_lab = {interface.device for interface in bench.lab.interfaces()} | {"br0", *bench.lab.switches["sw-1"].ports}
    macs = {mac_address(interface.node, interface.device) for interface in bench.lab.interfaces()}
    found = host_devices()
    assert set(bench.ssh("both", "cat /sys/class/net/eth*/address").split()) < macs
    # The host may have its own eth1.
    assert not (found.keys() - bench.host_devices.keys()) & of_lab
    assert not set(found.values()) & macs


def test_the_host_gets_only_loopback_ports(bench: Bench) -> None:
    listening = subprocess.run(["ss", "-Hltnup"], capture_output=True, text=True, timeout=10, check=True).stdout
    ours = {
        name: [line.split()[4] for line in listening.splitlines() if f"pid={process.pid}," in line]
        for name, process in processes(bench.lab).items()
    }
    assert ours.keys() == {"coordinator", "exporter", "daemon"}
    assert len(ours["coordinator"]) == 1
    assert len(ours["daemon"]) == 2 * len(bench.lab.nodes) + 2  # console and ssh of each, the PDU, ssh of the switch
    # gRPC listens on loopback, written as an IPv6 address.
    names = ("127.0.0.1:", "[::ffff:127.0.0.1]:")
    assert not [address for found in ours.values() for address in found if not address.startswith(names)]


def test_the_status_lists_faults(bench: Bench) -> None:
    bench.degrade("both:usb", rate=0.9, direction="rx")
    found = status(bench.lab.file)
    assert found is not None
    (entry,) = [node for node in found["nodes"] if node["name"] == "both"]
    assert entry["interfaces"][1]["faults"] == ["rx rate 90%"]
    assert entry["interfaces"][1]["model"] == "usb3-ax88179"
    bench.restore("both")
