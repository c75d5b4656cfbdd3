"""Reads what a lab file needs to know of a machine, over one ssh connection. Changes nothing on it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_pinet.errors import PinetError, SshError, TrafficError, first_line
from pytest_pinet.evidence.counting import is_count, link_speed
from pytest_pinet.evidence.nics import read_board
from pytest_pinet.execution.shell import Shell, as_root, last_line, why_no_root
from pytest_pinet.execution.undo import at_once
from pytest_pinet.init.login import HANDSHAKE_S, Login, explain, options
from pytest_pinet.lab.node.management import FoundManagement, find_management
from pytest_pinet.lab.ssh import NoSshConnection, SshConnection, SshShell
from pytest_pinet.model.hardware import FoundBoard, FoundNic
from pytest_pinet.traffic.iperf3_version import FEATURES, Version, read_tool

LOOK_S = 60.0
INSTALL_S = 600.0
_LOOK = r"""
LC_ALL=C; export LC_ALL; PATH=$PATH:/usr/sbin:/sbin
echo "host $(uname -n)"; echo "user $(id -un)"; echo "kernel $(uname -r)"; echo "machine $(uname -m)"
[ ! -r /etc/os-release ] || (. /etc/os-release; echo "system $PRETTY_NAME")
echo "cores $(getconf _NPROCESSORS_ONLN 2>/dev/null || nproc 2>/dev/null)"
echo "khz $(cat /sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq 2>/dev/null)"
echo "mhz $(sed -n 's/^cpu MHz.*: //p;/^cpu MHz/q' /proc/cpuinfo 2>/dev/null)"
for p in apt-get dnf yum zypper pacman apk opkg; do
 ! command -v $p >/dev/null 2>&1 || { echo "installer $p"; break; }
done
ip -o addr show 2>/dev/null | while read -r n d family a rest; do echo "address $d $family $a"; done
cd /sys/class/net || exit
for nic in *; do
 [ "$nic" != lo ] || continue
 echo "nic $nic"
 echo "carrier $(cat $nic/carrier 2>/dev/null)"; echo "speed $(cat $nic/speed 2>/dev/null)"
 if [ -e $nic/phy80211 ] || [ -e $nic/wireless ]; then echo "wireless yes"; fi
 d=$nic/device
 if [ -r $d/../idVendor ]; then
  echo "id usb:$(cat $d/../idVendor):$(cat $d/../idProduct)"; echo "product $(cat $d/../product 2>/dev/null)"
 elif [ -r $d/vendor ] && [ -e $d/subsystem_vendor ]; then echo "id pci:$(cat $d/vendor):$(cat $d/device)"
 fi
 ip -d -o link show dev $nic 2>/dev/null | sed -n 's/.* maxmtu \([0-9]*\).*/maxmtu \1/p'
 ethtool $nic 2>/dev/null
done
:
"""
# How each package manager installs iperf3.
_INSTALLERS = {
    "apt-get": "DEBIAN_FRONTEND=noninteractive apt-get install -y iperf3",
    "dnf": "dnf install -y iperf3",
    "yum": "yum install -y iperf3",
    "zypper": "zypper --non-interactive install iperf",
    "pacman": "pacman -S --noconfirm iperf3",
    "apk": "apk add iperf3",
    "opkg": "opkg install iperf3",
}
_SPEED = re.compile(r"\b([0-9]{1,9})base")
_ROUTE_S = 5.0


@dataclass(frozen=True)
class NicFacts:
    """How a NIC is linked, and what its driver says of it. None, or nothing: the kernel does not report the value.

    ``chip_id`` is the vendor and device number, such as ``usb:0bda:8153``.
    """

    linked_mbps: int | None = None
    carrier: bool = False
    wireless: bool = False
    speeds_mbps: tuple[int, ...] = ()
    mtu_max: int | None = None
    chip_id: str | None = None
    product: str | None = None


@dataclass(frozen=True)
class Machine:
    """A board or this machine (``login`` is None), as it describes itself.

    ``no_root`` says why its user cannot become root. ``no_iperf3`` says what is wrong with its iperf3; ``installer`` is
    the command that installs it. ``addresses`` maps network devices to their addresses, with the length of the prefix.
    """

    login: Login | None
    host: str = ""
    user: str = ""
    system: str = ""
    kernel: str = ""
    architecture: str = ""
    clock_mhz: int | None = None
    cores: int | None = None
    board: FoundBoard = field(default_factory=FoundBoard)
    facts: Mapping[str, NicFacts] = field(default_factory=dict)
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    management: FoundManagement = field(default_factory=FoundManagement)
    no_root: str | None = None
    iperf3: Version | None = None
    no_iperf3: str | None = None
    installer: str | None = None

    @property
    def who(self) -> str:
        return "this machine" if self.login is None else str(self.login)

    def linked(self) -> list[FoundNic]:
        """Return the wired NICs with a link. Devices of software count only if ssh comes in by one of them."""
        return [nic for nic in self.board.nics.values() if self._is_linked(nic)]

    def _is_linked(self, nic: FoundNic) -> bool:
        facts = self.facts.get(nic.device, NicFacts())
        if nic.is_stacked or facts.wireless or not facts.carrier:
            return False
        return nic.bus is not None or nic.device == self.management.device


def look_at(logins: Sequence[Login], keyfile: str | None) -> list[Machine | PinetError]:
    """Look at boards side by side. Return a machine, or the error, for each login."""

    def one(login: Login) -> Machine | PinetError:
        try:
            return _look(login, keyfile)
        except PinetError as error:
            return error

    return at_once(one, logins)


def _look(login: Login, keyfile: str | None) -> Machine:
    connection = _connect(login, keyfile)
    try:
        return read(connection.shell, login)
    finally:
        connection.close()


def _connect(login: Login, keyfile: str | None) -> SshConnection:
    try:
        return SshConnection(login.host, str(login), (options(keyfile), login.words), HANDSHAKE_S)
    except NoSshConnection as error:
        raise explain(login, keyfile, error.why) from None


def this_machine() -> Machine:
    """Look at the machine that runs this program."""
    return read(_local_shell(), None)


def _local_shell() -> SshShell:
    return SshShell("this machine", ["/bin/sh", "-c"])


def read(shell: Shell, login: Login | None) -> Machine:
    """Read a machine by its shell. Raises LabError."""
    done = shell.run(_LOOK, LOOK_S)
    if not done.stdout.startswith("host "):
        said = last_line(done.stderr, done.stdout) or f"exit status {done.returncode}"
        act = "the login needs a normal shell: an expired password or a restricted account must be changed first"
        raise SshError(f"{login} does not run commands over ssh: {said[:200]}", act)
    machine = parse(done.stdout, login)
    version, no_iperf3 = _iperf3(shell)
    return replace(
        machine,
        board=read_board(shell),
        management=FoundManagement() if login is None else find_management(shell, {}),
        no_root=why_no_root(shell),
        iperf3=version,
        no_iperf3=no_iperf3,
    )


def _iperf3(shell: Shell) -> tuple[Version | None, str | None]:
    try:
        version = read_tool(shell).version
    except TrafficError as error:
        return None, first_line(error)
    oldest = FEATURES[0]
    return version, None if version >= oldest.since else f"iperf3 {version} is older than {oldest.since}: {oldest.why}"


def install_iperf3(machine: Machine, keyfile: str | None) -> Version:
    """Install iperf3 on a machine. Raises LabError with what the package manager printed."""
    assert machine.installer is not None
    connection = None if machine.login is None else _connect(machine.login, keyfile)
    try:
        shell = _local_shell() if connection is None else connection.shell
        done = shell.run(as_root(machine.installer), INSTALL_S)
        if done.returncode:
            said = last_line(done.stderr, done.stdout) or "no output"
            act = f"install it on {machine.who}: {machine.installer}"
            raise SshError(f"iperf3 was not installed on {machine.who}: {said[:200]}", act)
        return read_tool(shell).version
    finally:
        if connection is not None:
            connection.close()


@dataclass(frozen=True)
class Route:
    """How this machine reaches an address: by ``device``, and over a router (``via``) or directly (None)."""

    device: str
    via: str | None


def route_to(address: str) -> Route | None:
    """Return this machine's route to an address, or None if there is none."""
    done = _local_shell().run(
        f"PATH=$PATH:/usr/sbin:/sbin; ip -o route get {shlex.quote(address)} 2>/dev/null", _ROUTE_S
    )
    return parse_route(done.stdout)


def parse_route(text: str) -> Route | None:
    """Parse a line of ``ip -o route get``."""
    words = text.split()
    device = words[words.index("dev") + 1] if "dev" in words[:-1] else None
    return None if device is None else Route(device, words[words.index("via") + 1] if "via" in words[:-1] else None)


def parse(text: str, login: Login | None) -> Machine:
    """Parse a machine's output."""
    head, *sections = re.split(r"^nic ", text, flags=re.MULTILINE)
    values: dict[str, str] = {}
    addresses: dict[str, list[str]] = {}
    for line in head.splitlines():
        key, _, value = line.partition(" ")
        words = value.split()
        if key == "address" and len(words) == 3:
            addresses.setdefault(words[0].partition("@")[0], []).append(words[2])
        elif value.strip():
            values[key] = value.strip()
    mhz = values.get("mhz", "")
    clock = int(values["khz"]) // 1000 if is_count(values.get("khz", "")) else None
    if clock is None and re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", mhz):
        clock = round(float(mhz))
    return Machine(
        login,
        host=values.get("host", ""),
        user=values.get("user", ""),
        system=values.get("system", ""),
        kernel=values.get("kernel", ""),
        architecture=values.get("machine", ""),
        clock_mhz=clock or None,
        cores=int(values["cores"]) if is_count(values.get("cores", "")) else None,
        installer=_INSTALLERS.get(values.get("installer", "")),
        addresses={device: tuple(found) for device, found in addresses.items()},
        facts=dict(_facts(section) for section in sections),
    )


def _facts(section: str) -> tuple[str, NicFacts]:
    device, _, text = section.partition("\n")
    values: dict[str, str] = {}
    speeds: set[int] = set()
    supported = False
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        # ethtool indents its values; the modes of one key may take several lines.
        if line[:1].isspace():
            name, colon, modes = line.strip().partition(":")
            supported = name == "Supported link modes" if colon else supported
            speeds |= {int(speed) for speed in _SPEED.findall(modes if colon else name)} if supported else set()
        elif value.strip():
            values.setdefault(key, value.strip())
    return device.strip(), NicFacts(
        link_speed(values.get("speed", "")),
        values.get("carrier") == "1",
        "wireless" in values,
        tuple(sorted(speeds)),
        int(values["maxmtu"]) if is_count(values.get("maxmtu", "")) else None,
        values["id"].replace("0x", "") if "id" in values else None,
        values.get("product"),
    )
