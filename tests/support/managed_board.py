"""An emulated board whose NICs are configured by a real network manager, and a peer that is a network namespace."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from pytest_pinet.lab.ssh import SshShell, ssh_words
from pytest_pinet.virtual.runtime import ssh_command
from tests.support.gate_project import GateLab, Project
from tests.support.labgrid_head import lab_with_peer
from tests.support.waiting import wait_until

# Several times the boot time of an idle machine, for a busy one.
BOOT_S = 240.0
LAB = lab_with_peer(
    "managed",
    {"virt": "clock_mhz: 62, cores: 2, buses: [pcie3x1]"},
    ("virtio", "driver: virtio_net, bus: pcie3x1"),
    1000,
    {
        "board": "board: virt, machine: virt, manager: MANAGER, boot_timeout: 240 s, "
        "interfaces: {virtio: {nic: virtio, port: PORT}}"
    },
)
# What the managers and the kernel say of all interfaces. Addresses without the lifetimes.
_STATE = """
PATH=$PATH:/usr/sbin:/sbin
nmcli -t -f DEVICE,STATE,CON-UUID device 2>/dev/null
[ ! -d /run/systemd/netif/links ] || networkctl list --no-legend --no-pager
for nic in mgmt0 eth0 wlan1; do
    ifquery --state $nic 2>/dev/null; [ ! -d /run/dhcpcd ] || cat /run/dhcpcd/pid
done
ip -o addr | sed 's/ valid_lft.*//; s/^[0-9]*: //'
# NetworkManager counts the metric up with each activation.
ip route | sed 's/ metric [0-9]*//'
grep . /sys/class/net/*/flags /proc/sys/net/ipv4/conf/*/arp_ignore /proc/sys/net/ipv4/conf/*/arp_announce
"""
# Settings of processes that are gone are gone, too.
_LEFT = r"""
find /run/pytest-pinet -type f 2>/dev/null
ls /run/systemd/network/00-pinet* 2>/dev/null
systemctl list-units --all --plain --no-legend 'pinet-0*'
pgrep -fl 'sh /run/pytest-pinet/guard[s]'
:
"""
# An access point in a namespace of the board, and the station wlan1, with the kernel's simulated radios.
_WIFI = """
set -e
modprobe mac80211_hwsim radios=2
ip netns add ap
iw phy "$(cat /sys/class/net/wlan0/phy80211/name)" set netns name ap
printf 'interface=wlan0\\ndriver=nl80211\\nssid=pinet\\nhw_mode=g\\nchannel=1\\n' >/run/hostapd.conf
ip netns exec ap ip addr add 192.168.88.1/24 dev wlan0
ip netns exec ap hostapd -B /run/hostapd.conf
"""
_STATION = """
set -e
printf 'network={\\nssid="pinet"\\nkey_mgmt=NONE\\n}\\n' >/run/station.conf
wpa_supplicant -B -i wlan1 -c /run/station.conf
"""


class ManagedBoard:
    """The running board. ``shell`` is a login of its own, which no run uses. It stays open: a login takes seconds."""

    def __init__(self, lab: GateLab, manager: str) -> None:
        self.lab = lab
        self.manager = manager
        argv = ssh_command(str(lab.file), "board", [])
        control = f"{lab.file.parent}/ssh-%C"
        argv[1:1] = ["-o", "ControlMaster=auto", "-o", f"ControlPath={control}", "-o", "ControlPersist=yes"]
        self.shell = SshShell("board", argv)

    def ssh(self, command: str, timeout_s: float = 60.0) -> str:
        done = self.shell.run(command, timeout_s)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def state(self) -> list[str]:
        """Return what the manager and the kernel say of all interfaces."""
        return self.ssh(_STATE).splitlines()

    def left(self) -> str:
        """Return what runs have left on the board: journal, guards, units, processes."""
        return self.ssh(_LEFT)

    def start_wifi(self) -> None:
        """Associate ``wlan1``, which the manager configures, with an access point on the same board."""
        self.ssh(_WIFI)
        if self.manager != "NetworkManager":
            self.ssh(_STATION)
        await_board("the association", self.associated_s, 90.0)
        if self.manager == "ifupdown":
            self.ssh("ifup wlan1")
        await_board("the address of wlan1", lambda: "192.168.88.2" in self.ssh("ip addr show dev wlan1"), 60.0)
        self.ssh("ping -c 2 -W 5 192.168.88.1")
        # systemd-networkd waits for an IPv6 router, of which there is none.
        await_board("settled interfaces", lambda: not any("configuring" in line for line in self.state()))

    def shell_over_wifi(self) -> SshShell:
        """Return a login that comes in by ``wlan1``: its connection begins in the namespace of the access point."""
        # ssh expands percent signs in a proxy command.
        way = shlex.join([*self.shell.argv, "ip netns exec ap busybox nc 192.168.88.2 22"]).replace("%", "%%")
        options, _ = ssh_words("192.168.88.2", self.lab.environment["LG_KEYFILE"])
        return SshShell(
            "board", ["ssh", *options, "-o", "ConnectTimeout=60", "-o", f"ProxyCommand={way}", "root@192.168.88.2"]
        )

    def associated_s(self) -> int | None:
        """Return for how many seconds the access point has known the station, or None if it does not know any."""
        found = re.search(r"connected time:\s*(\d+)", self.ssh("ip netns exec ap iw dev wlan0 station dump"))
        return int(found[1]) if found else None

    def uptime_s(self) -> float:
        return float(self.ssh("cat /proc/uptime").split()[0])

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep one ssh session with traffic open, and fail if it ends or falls silent within the block."""
        argv = ssh_command(str(self.lab.file), "board", ["while sleep 1; do cat /proc/uptime; done"])
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as session:
            try:
                assert session.stdout is not None
                first = session.stdout.readline()
                begin = time.monotonic()
                yield
                assert session.poll() is None, "the ssh session ended"
                lasted = time.monotonic() - begin
            finally:
                session.kill()
            seen = [float(line.split()[0]) for line in [first, *session.stdout] if line.count(" ") == 1]
        gaps = [after - before for before, after in pairwise(seen)]
        assert seen[-1] - seen[0] > lasted - 10, "the ssh session fell silent"
        assert max(gaps) < 10, "the ssh session fell silent"


def await_board(what: str, condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Wait for a condition on a board. A question each second leaves the board time to work."""

    def held() -> bool:
        if condition():
            return True
        time.sleep(1.0)
        return False

    wait_until(what, held, timeout_s)


def answers(lab: GateLab) -> bool:
    """Return whether the board executes a command. A login that is given up early costs it processor time."""
    argv = ssh_command(str(lab.file), "board", ["true"])
    argv[1:1] = ["-o", "ConnectTimeout=20"]
    try:
        return subprocess.run(argv, capture_output=True, timeout=60, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def lab_file(folder: Path, manager: str) -> Path:
    file = folder / "lab.yaml"
    file.write_text(LAB.replace("MANAGER", manager))
    return file


@contextmanager
def managed_board(folder: Path, manager: str) -> Iterator[ManagedBoard]:
    """Yield a board that has booted with this manager. Raises LabError if its card cannot be made."""
    lab = GateLab(lab_file(folder, manager))
    try:
        lab.switch_power(True, "board", "peer")
        await_board("the boot of the board", lambda: answers(lab), BOOT_S)
        board = ManagedBoard(lab, manager)
        await_board("the address of eth0", lambda: "192.168.77.2" in board.ssh("ip addr show dev eth0"), BOOT_S)
        yield board
    finally:
        lab.down()


def project(folder: Path, board: ManagedBoard, lapses_after_s: float, tests: str) -> Project:
    """Return a user's project with these tests. Guards on the board act after this time."""
    found = Project(folder, board.lab)
    found.write(
        "conftest.py", f"import pytest_pinet.lab.node.guard as guard\nguard.LAPSES_AFTER_S = {lapses_after_s}\n"
    )
    found.write("test_link.py", tests)
    return found
