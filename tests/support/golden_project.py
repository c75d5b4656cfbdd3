"""The project of the golden runs: its tests, recordings, and a conftest that freezes the counters of its nodes."""

from __future__ import annotations

KINDS = '''
"""A test for each kind of result and each verdict."""

import pytest

PAIR = pytest.mark.pinet(board="pi3b", nic="onboard", min="90%")
NO_LIMIT = pytest.mark.pinet(board="pi3b", nic="onboard")


@PAIR
def test_pass(link, gate):
    gate.tcp(link)


@PAIR
def test_marginal(link, gate):
    gate.tcp(link, "rx", min="85 Mbit/s", marginal="10%")


@pytest.mark.pinet(board="pi4b", nic="onboard")
def test_improved(link, gate):
    gate.tcp(link)


@PAIR
def test_fail(link, gate):
    gate.tcp(link, window="256K")


@PAIR
def test_suspicion_that_is_cleared(link, gate):
    gate.tcp(link, streams=4, profile="fast")


@PAIR
def test_inconclusive(link, gate):
    gate.tcp(link, length="64K", profile="fast")


@PAIR
def test_invalid(link, gate):
    gate.tcp(link, streams=2)


@PAIR
def test_setting_that_was_not_effective(link, gate):
    gate.tcp(link, window="128K")


@NO_LIMIT
def test_all_that_passes(link, gate):
    gate.tcp(link, "bidir", min={"tx": "80%", "rx": "70%"}, retransmits="1%", latency="5 ms", cpu="400%")
    gate.udp(link, "rx", bitrate="50M", loss="0.5%")
    gate.udp_ladder(link, "rx", rates=["40M", "80M", "90M"], duration=1, min="60 Mbit/s")
    gate.http(link, duration=2, requests="100/s")
    gate.ping(link, size=1000, latency="5 ms", loss="0%")
    gate.compare(link)


@PAIR
def test_costs_too_much(link, gate):
    gate.tcp(link, "bidir", streams=3, retransmits="0.1%", latency="1 ms", profile="fast")


@PAIR
def test_stall(link, gate):
    gate.tcp(link, congestion="cubic", profile="fast")


@PAIR
def test_http_that_fails(link, gate):
    gate.http(link, "rx", duration=2, profile="fast")


@PAIR
def test_ping_that_is_slow(link, gate):
    gate.ping(link, size=1001, latency="5 ms", profile="fast")


@PAIR
def test_compare_slower(link, gate):
    gate.compare(link, streams=2, names=("before", "after"))


@pytest.mark.pinet(board="pi3b", nic="onboard", topology="incast:2", sum="90%", share="80%", fairness=0.95)
def test_several(link, gate):
    gate.tcp(link)


@pytest.mark.pinet(board="pi4b", nic="onboard", topology="pairs:2", min="90%")
def test_several_pairs(link, gate):
    gate.tcp(link, profile="fast")


@pytest.mark.pinet(board="pi3b", nic="onboard", topology="incast:9")
def test_skipped(link, gate):
    gate.tcp(link)


@PAIR
def test_mistake(link, gate):
    gate.tcp(link, "sideways")


@PAIR
def test_error(link, gate):
    gate.tcp(link, mss=1000)
'''

CHANGE = '''
"""What builds under test are judged by."""

import pytest


@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_change(link, gate):
    gate.tcp(link, duration=1, warmup=0)


@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_accepted(link, gate):
    gate.tcp(link, duration=1, warmup=0, streams=6)
'''
INTERRUPTED = """
def test_interrupted():
    raise KeyboardInterrupt
"""
# Only sysctls, because a node in a namespace cannot apply more.
BUILDS = {
    "good.yaml": "sysctls: {net.ipv4.tcp_rmem: 4096 131072 6291456}\n",
    "new.yaml": "sysctls: {net.ipv4.tcp_rmem: 4096 8192 8192}\n",
}

REPLAY = """
test_pass*: [{connections: [{goodput: 94.1}]}]
test_marginal*: [{connections: [{goodput: 90.0, retransmits: 3, rtt_ms: 0.4}]}]
test_improved*: [{connections: [{goodput: 941.0}]}]
test_fail*: [{connections: [{goodput: 60.0, retransmits: 40, rtt_ms: 2.0}]}]
test_suspicion*: [{connections: [{goodput: 80.0, retransmits: 90}, {goodput: 94.0}]}]
test_inconclusive*: [{connections: [
  {goodput: 84.9}, {goodput: 84.5}, {goodput: 84.9}, {goodput: 84.5}, {goodput: 84.9}, {goodput: 84.5},
  {goodput: 84.9}, {goodput: 84.5}]}]
test_invalid*: [{connections: [{goodput: 110.0}]}]
test_setting*: [{connections: [{goodput: 94.0, unmet: "window=131072 bytes was not effective on pi3b-1"}]}]
test_costs*: [{connections: [{goodput: {tx: 90.0, rx: 90.0}, retransmits: 400, rtt_ms: 3.5}]}]
test_stall*: [{connections: [{goodput: 94.1, stall: [2.0, 0.75]}, {goodput: 94.1}]}]
test_all_that_passes*: [
  {of: "* tcp-P1-bidir *", connections: [{goodput: {tx: 90.0, rx: 80.0}, retransmits: 5, rtt_ms: 1.5}]},
  {of: "* udp-P1-b50M *", connections: [{loss: 0.001}]},
  {of: "* udp-P1-b90M *", connections: [{goodput: 81.0, loss: 0.1}]},
  {of: "* udp-*", connections: [{loss: 0.0}]},
  {of: "* http-*", connections: [{goodput: 93.0}]},
  {connections: [{goodput: 94.1}]}]
test_http_that_fails*: [{connections: [{goodput: 93.0, failed: 7}]}]
test_compare_slower*: [{connections: [
  {goodput: 94.1}, {goodput: 85.0}, {goodput: 85.1}, {goodput: 94.0},
  {goodput: 85.0}, {goodput: 94.1}, {goodput: 94.0}, {goodput: 85.1}]}]
"test_several[[]*": [
  {of: "* pi3b-2 *", connections: [{goodput: 47.0}]},
  {connections: [{goodput: 46.0}]}]
"test_several_pairs*": [
  {of: "pi4b-1 *", connections: [{goodput: 941.0}]},
  {connections: [{goodput: 600.0, retransmits: 500}]}]
test_error*: [{connections: [{error: "the tool of pi3b-1 broke off"}]}]
test_accepted*: [{connections: [{goodput: 94.1}]}]
# In the order of the turns: A B B A B A A B. All boots of a build are alike, so that no drift is found between them.
test_change*: [{connections: [
  {goodput: 94.0}, {goodput: 85.0}, {goodput: 85.0}, {goodput: 94.0},
  {goodput: 85.0}, {goodput: 94.0}, {goodput: 94.0}, {goodput: 85.0}]}]
"""

# A stand-in for ping that prints recorded iputils output for the two sizes in the tests.
PING = """\
#!/bin/sh
case " $* " in
*" -s 1000 "*) rtt=0.301/0.402/0.503/0.050 ;;
*" -s 1001 "*) rtt=7.301/8.402/9.503/0.650 ;;
*) PATH=/usr/bin:/bin:/usr/sbin:/sbin exec ping "$@" ;;
esac
echo "--- peer ping statistics ---"
echo "10 packets transmitted, 10 received, 0% packet loss, time 1802ms"
echo "rtt min/avg/max/mdev = $rtt ms"
"""

# Nodes in namespaces show the counters and the kernel log of the whole machine, which other processes change.
CONFTEST = f'''
import subprocess
from pathlib import Path

import pytest

from pytest_pinet.ab import boots, build_run, records
from pytest_pinet.evidence import other_work

# Programs of the machine that runs the tests and of its nodes differ from run to run, and are read only if two readings
# are at least a second apart. Here, they are not seen.
other_work._read_here = lambda: None
other_work.LEAST_WINDOW_S = float("inf")
# One connection in each boot, however long a busy machine takes to boot a board.
build_run.connections_per_boot = lambda *_: 1
# A boot every ten seconds, because the times of the boots are part of the judgement: drift is removed by them.
boots.MadeBoot = lambda node, turn, build, made=boots.MadeBoot: made(
    node, turn.replace(started_s=10.0 * turn.number), build
)

# No traffic crosses the links: what their counters show are a few packets of the kernels themselves, at any moment.
records._costs_of_end = lambda *_: {{}}

PING = {PING!r}
COUNTERS = ("stat", "interrupts", "softirqs")
STILL = "[ -e /run/{{0}} ] || {{{{ cat /proc/{{0}} >/run/{{0}}; mount --bind /run/{{0}} /proc/{{0}}; }}}}"


def processes(namespace):
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str((entry / "ns" / "mnt").readlink()) == namespace:
                    yield entry.name
            except OSError:
                continue


@pytest.fixture(autouse=True)
def still(request):
    """The counters of processors stand still on all nodes of a test, their kernels log nothing, ping is recorded."""
    if "link" not in request.fixturenames:
        return
    # A dry run opens no link.
    for end in getattr(request.getfixturevalue("link"), "ends", ()):
        namespace = end.shell.run("readlink /proc/self/ns/mnt").stdout.strip()
        commands = "; ".join(STILL.format(name) for name in COUNTERS)
        pid = next(processes(namespace))
        subprocess.run(["nsenter", "-t", pid, "-m", "sh", "-c", commands], check=True)
        for name, text in (("ping", PING), ("dmesg", "#!/bin/sh\\n")):
            end.shell.run(f"cat >/run/pinet/bin/{{name}} <<'EOF'\\n{{text}}EOF\\nchmod +x /run/pinet/bin/{{name}}")
'''
