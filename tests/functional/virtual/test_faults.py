"""Each fault of the virtual lab works, is visible, and is gone after a restore."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner

from pytest_pinet.cli.lab import lab as lab_command
from pytest_pinet.errors import LabError
from pytest_pinet.lab.switch.linux import neighbours_by_lldp
from pytest_pinet.virtual.runtime import ssh_command, status
from tests.support.small_virtual_lab import FULL_MBPS, LEAST, MOST, Bench, bench_up, console, expect
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench_up(tmp_path_factory.mktemp("faults")) as found:
        yield found


@pytest.fixture(autouse=True)
def whole(bench: Bench) -> Iterator[None]:
    yield
    bench.restore()
    assert visible_faults(bench) == {}


@pytest.fixture
def pair(bench: Bench) -> Bench:
    """Yield a bench where left (port 1) and right (port 2) are on and have addresses."""
    bench.boot("left", "right")
    address(bench)
    return bench


def address(bench: Bench) -> None:
    bench.ssh("left", "ip addr replace 10.1.0.1/24 dev eth0")
    bench.ssh("right", "ip addr replace 10.1.0.2/24 dev eth0")
    wait_until("right to answer", bench.pings)


def pinet(bench: Bench, *words: str) -> str:
    """Run `pinet lab WORDS`. Return its output, also if it failed."""
    done = CliRunner().invoke(lab_command, [words[0], "--lab", bench.lab.file, *words[1:]])
    return done.output if done.exception is None else f"{done.output}{done.exception}"


def visible_faults(bench: Bench) -> dict[str, list[str]]:
    """Return the faults in the status by name."""
    found = status(bench.lab.file)
    assert found is not None
    wrong = {entry["name"]: entry["faults"] for entry in (*found["nodes"], *found["switches"])}
    wrong |= {f"{n['name']}:{i['name']}": i["faults"] for n in found["nodes"] for i in n["interfaces"]}
    wrong |= {n["name"]: ["frozen"] for n in found["nodes"] if n["frozen"]}
    return {name: faults for name, faults in {**wrong, "pdu": found["pdu"]["faults"]}.items() if faults}


def test_a_dead_pdu_does_not_answer_until_it_is_restored(bench: Bench) -> None:
    assert pinet(bench, "degrade", "pdu", "--dead") == "degraded: pdu\n"
    assert visible_faults(bench) == {"pdu": ["does not answer"]}
    assert "! pdu: does not answer" in pinet(bench, "status")
    for request in (Request(pdu_url(bench, 1)), Request(pdu_url(bench, 1), data=b"1", method="PUT")):
        with pytest.raises((TimeoutError, URLError)):
            urlopen(request, timeout=0.3)
    assert pinet(bench, "restore", "pdu") == "restored: pdu\n"
    assert bench.outlet("left") in ("0", "1")


def pdu_url(bench: Bench, index: int) -> str:
    return f"http://127.0.0.1:{bench.ports()['pdu']}/relay/{index}/value"


def test_a_lying_pdu_acknowledges_requests_and_ignores_them(bench: Bench) -> None:
    bench.boot("left")
    pinet(bench, "degrade", "pdu", "--lie")
    assert visible_faults(bench) == {"pdu": ["lies"]}
    assert bench.outlet("left", "0") == "0"
    assert bench.outlet("left") == "1"
    assert bench.answers("left")
    bench.restore("pdu")
    assert bench.outlet("left", "0") == bench.outlet("left") == "0"


def test_only_one_outlet_of_the_pdu_lies(bench: Bench) -> None:
    bench.outlet("left", "0")
    bench.outlet("right", "0")
    assert pinet(bench, "degrade", "pdu/right", "--lie") == "degraded: pdu/right\n"
    assert visible_faults(bench) == {"pdu": ["lies about right"]}
    bench.outlet("left", "1")
    bench.outlet("right", "1")
    assert (bench.outlet("left"), bench.outlet("right")) == ("1", "0")


def test_a_hanging_console_prints_nothing_and_ssh_still_works(bench: Bench) -> None:
    bench.outlet("left", "0")
    with console(bench, "left") as sock:
        pinet(bench, "degrade", "left", "--hang-console")
        assert visible_faults(bench) == {"left": ["console hangs"]}
        bench.boot("left")
        assert bench.ssh("left", "echo here").strip() == "here"
        sock.sendall(b"\n")
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        bench.restore("left")
        sock.settimeout(20)
        sock.sendall(b"\n")
        expect(sock, rb"left login: $")


def test_a_panic_at_boot_is_printed_and_happens_at_each_boot(bench: Bench) -> None:
    bench.outlet("left", "0")
    pinet(bench, "degrade", "left", "--panic", "boot")
    assert visible_faults(bench) == {"left": ["panics at boot"]}
    for _ in range(2):
        with console(bench, "left") as sock:
            bench.outlet("left", "1")
            seen = expect(sock, rb"end Kernel panic - not syncing: VFS: Unable to mount root fs .*\]---\r\n")
            assert re.search(rb"\[ +0\.000000\] Booting Linux", seen)
            assert b"Call trace:\r\n" in seen
            assert b"login:" not in seen
        assert bench.carrier("p1")
        assert not bench.answers("left")
        assert visible_faults(bench) == {"left": ["panics at boot", "hangs in a kernel panic"]}
        bench.outlet("left", "0")
    bench.restore("left")
    bench.boot("left")


def test_restore_boots_a_node_that_hangs_in_a_panic(bench: Bench) -> None:
    bench.outlet("left", "0")
    bench.degrade("left", panic="boot")
    bench.outlet("left", "1")
    with console(bench, "left") as sock:
        bench.restore("left")
        expect(sock, rb"left login: $")


def test_a_panic_stops_the_node_until_a_power_cycle(pair: Bench) -> None:
    with console(pair, "right") as sock:
        pinet(pair, "degrade", "right", "--panic", "now")
        seen = expect(sock, rb"end Kernel panic - not syncing: Oops: Fatal exception in interrupt \]---\r\n")
        assert b"Unable to handle kernel NULL pointer dereference" in seen
        assert visible_faults(pair) == {"right": ["hangs in a kernel panic"]}
        assert not pair.pings()
        assert not pair.answers("right")
        pair.outlet("right", "0")
        pair.outlet("right", "1")
        expect(sock, rb"right login: $")
    assert visible_faults(pair) == {}
    assert "switched off" in pinet(pair, "degrade", "both", "--panic", "now")


@pytest.mark.parametrize("line", ["NETDEV WATCHDOG: eth0 (lan78xx): transmit queue 0 timed out", "hwmon: Undervoltage"])
def test_a_kernel_message_appears_on_the_console(bench: Bench, line: str) -> None:
    bench.boot("left")
    with console(bench, "left") as sock:
        assert pinet(bench, "degrade", "left", "--console-line", line) == "degraded: left\n"
        expect(sock, rb"\[ +\d+\.\d{6}\] " + re.escape(line).encode() + rb"\r\n")
    assert line in (bench.runtime.path / "console-left.log").read_text()
    assert visible_faults(bench) == {}


def test_drop_ssh_ends_sessions_and_accepts_new_ones(bench: Bench) -> None:
    bench.boot("left")
    session = subprocess.Popen(ssh_command(bench.lab.file, "left", ["echo ready; cat"]), stdin=-1, stdout=-1)
    assert session.stdout is not None
    assert session.stdout.readline() == b"ready\n"
    pinet(bench, "degrade", "left", "--drop-ssh")
    session.communicate(timeout=20)
    assert session.returncode == 255
    assert bench.ssh("left", "echo again").strip() == "again"


def test_a_dead_switch_does_not_answer_and_still_forwards(pair: Bench) -> None:
    pinet(pair, "degrade", "sw-1", "--dead")
    assert visible_faults(pair) == {"sw-1": ["does not answer"]}
    port = int(pair.environment["LG_SWITCH_SW_1"].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=1) as sock:
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.recv(1)
    assert pair.pings()
    pair.restore("sw-1")
    assert pair.switch("hostname").strip() == "sw-1"


def test_swapped_cables_are_in_each_others_ports(pair: Bench) -> None:
    indices = pair.switch("cat /sys/class/net/p[124]/ifindex")
    pair.outlet("left", "1")
    assert pinet(pair, "degrade", "left:onboard", "--swap-with", "right:onboard") == "degraded: left:onboard\n"
    assert visible_faults(pair) == {"left:onboard": ["plugged into sw-1/p2"], "right:onboard": ["plugged into sw-1/p1"]}
    assert pair.switch("cat /sys/class/net/p[124]/ifindex") == indices
    wait_until("LLDP", lambda: neighbour(pair, "p1") == "right" and neighbour(pair, "p2") == "left")
    wait_until("right to answer", pair.pings)
    pair.switch("ip link set p1 down")
    assert pair.node_carrier("left")
    assert not pair.node_carrier("right")
    pair.switch("ip link set p1 up")
    assert LEAST * FULL_MBPS < pair.iperf()["mbps"] < MOST * FULL_MBPS
    pair.restore("left")
    assert visible_faults(pair) == {}
    wait_until("LLDP", lambda: neighbour(pair, "p1") == "left" and neighbour(pair, "p2") == "right")
    assert LEAST * FULL_MBPS < pair.iperf()["mbps"] < MOST * FULL_MBPS


def neighbour(bench: Bench, port: str) -> str | None:
    """Return the neighbour of a port that LLDP reports."""
    found = neighbours_by_lldp(bench.switch("lldpcli -f json0 show neighbors"))
    return next((one.system for name, one in found if name == port), None)


def test_faults_stay_with_a_swapped_cable(pair: Bench) -> None:
    pair.degrade("left:onboard", swap_with="right:onboard")
    pair.degrade("left", rate=0.5, direction="rx")
    wait_until("right to answer", pair.pings)
    assert LEAST * FULL_MBPS / 2 < pair.iperf("-R")["mbps"] < MOST * FULL_MBPS / 2
    pair.degrade("left", down=True)
    assert not pair.node_carrier("left")
    assert pair.node_carrier("right")
    with pytest.raises(LabError, match="a pulled cable cannot be swapped"):
        pair.degrade("left:onboard", swap_with="right:onboard")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["left", "--dead"],
            "--dead is not a fault of 'left', which is a node or an interface; accepted: --rate",
        ),
        (
            ["pdu", "--loss", "1%"],
            "--loss is not a fault of 'pdu', which is the power distribution unit; accepted: --dead",
        ),
        (["sw-1", "--lie"], "--lie is not a fault of 'sw-1', which is a switch; accepted: --dead"),
        (["pdu/lft", "--lie"], "unknown node 'lft', did you mean 'left'?"),
        (["pdu/left", "--dead"], "--dead affects all of 'pdu', not only 'pdu/left'; use 'pdu' as target"),
        (["sw1", "--dead"], "unknown part of the lab 'sw1', did you mean 'sw-1'?"),
        (
            ["left:onboard", "--panic", "now"],
            "--panic affects all of 'left', not only 'left:onboard'",
        ),
        (["both", "--swap-with", "left:onboard"], "both has several cables; name one: both:onboard, both:usb"),
        (["left", "--swap-with", "both"], "--swap-with both: expected one interface"),
        (["left", "--swap-with", "left:onboard"], "cannot be swapped with itself"),
        (["left"], "no fault given"),
        (["left", "--direction", "tx"], "needs --rate or --loss"),
    ],
)
def test_an_impossible_fault_is_refused_in_one_sentence(bench: Bench, words: list[str], message: str) -> None:
    assert message in pinet(bench, "degrade", *words)
