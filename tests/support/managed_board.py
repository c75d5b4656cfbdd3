"""An emulated board whose NICs are configured by a real network manager, and a peer that is a network namespace."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.virtual.status import ssh_command
from tests.support.gate_project import GateLab, wait_until

# Several times the boot time of an idle machine, for a busy one.
BOOT_S = 240.0
LAB = """\
options: {coordinator_address: !template "$LG_COORDINATOR"}
imports: [pytest_pinet.lab.drivers]
targets:
  board:
    resources: {RemotePlace: {name: board}}
    drivers: &drivers
      NetworkPowerDriver: {}
      PiSerialDriver: {}
      PiShellDriver:
        prompt: '(?:\\x1b\\[[?]2004h)?root@\\S+:.*# '
        login_prompt: ' login: '
        username: root
        password: !template "$LG_CONSOLE_PASSWORD"
      PiSSHDriver: {keyfile: !template "$LG_KEYFILE"}
      PiStrategy: {}
  peer:
    resources: {RemotePlace: {name: peer}}
    drivers: *drivers
pinet:
  name: managed
  launcher: virtual
  boards:
    virt: {clock_mhz: 62, cores: 2, buses: [pcie3x1]}
    peer: {clock_mhz: 1000, cores: 1, buses: [pcie3x1]}
  nics:
    virtio: {driver: virtio_net, bus: pcie3x1, speeds_mbps: [1000]}
    veth: {driver: veth, bus: pcie3x1, speeds_mbps: [1000]}
  switches:
    sw1:
      backend: snmp
      address: !template "$LG_SWITCH_SW1"
      community: !template "$LG_SNMP_READ_COMMUNITY"
      write_community: !template "$LG_SNMP_COMMUNITY"
      counter_latency: 0 s
      ports: p1-p2
  nodes:
    board:
      board: virt
      machine: virt
      manager: MANAGER
      boot_timeout: 240 s
      interfaces: {virtio: {nic: virtio, port: sw1/p1}}
    peer:
      board: peer
      boot_timeout: 20 s
      interfaces: {pcie: {nic: veth, port: sw1/p2}}
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
    """The running board. ``shell`` is a login of its own, which no run uses."""

    def __init__(self, lab: GateLab, manager: str) -> None:
        self.lab = lab
        self.manager = manager
        self.shell = SshShell("board", ssh_command(str(lab.file), "board", []))

    def ssh(self, command: str, timeout_s: float = 60.0) -> str:
        done = self.shell.run(command, timeout_s)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def start_wifi(self) -> None:
        """Associate ``wlan1``, which the manager configures, with an access point on the same board."""
        self.ssh(_WIFI)
        if self.manager != "NetworkManager":
            self.ssh(_STATION)
        wait_until("the association", self.associated_s, 90.0)
        if self.manager == "ifupdown":
            self.ssh("ifup wlan1")
        wait_until("the address of wlan1", lambda: "192.168.88.2" in self.ssh("ip addr show dev wlan1"), 60.0)
        self.ssh("ping -c 2 -W 5 192.168.88.1")

    def associated_s(self) -> int | None:
        """Return for how many seconds the access point has known the station, or None if it does not know any."""
        found = re.search(r"connected time:\s*(\d+)", self.ssh("ip netns exec ap iw dev wlan0 station dump"))
        return int(found[1]) if found else None


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
        wait_until("the boot of the board", lambda: answers(lab), BOOT_S)
        board = ManagedBoard(lab, manager)
        wait_until("the address of eth0", lambda: "192.168.77.2" in board.ssh("ip addr show dev eth0"), BOOT_S)
        yield board
    finally:
        lab.down()
