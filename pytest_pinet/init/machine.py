"""Reads what a lab file needs to know of a machine, over one ssh connection. Changes nothing on the machine."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_pinet.errors import PinetError, SshError, TrafficError, first_line
from pytest_pinet.evidence.counting import is_count, link_speed
from pytest_pinet.evidence.nics import read_board
from pytest_pinet.execution.shell import Shell, as_root, last_line, why_no_root
from pytest_pinet.execution.undo import at_once
from pytest_pinet.lab.node.management import FoundManagement, find_management
from pytest_pinet.lab.ssh import NoSshConnection, SshConnection, SshShell
from pytest_pinet.model.forms import parse_address
from pytest_pinet.model.hardware import FoundBoard, FoundNic
from pytest_pinet.traffic.exchange import OF_METRICS, packages
from pytest_pinet.traffic.iperf3_command import Version, read_tool, too_old

FORM = "a login such as pi@192.0.2.5, pi@192.0.2.5:2222 or a host of ~/.ssh/config"
# The whole handshake has this time: it takes seconds on a Pi Zero or an emulated board.
CONNECT_S, HANDSHAKE_S = 10, 40.0
_RESOLVE_S = 10


@dataclass(frozen=True)
class Login:
    """``host`` as the user wrote it, such as a name of ~/.ssh/config; ``address`` is where ssh connects to."""

    user: str
    host: str
    port: int
    address: str

    @property
    def words(self) -> tuple[str, ...]:
        """The words of ssh for this destination."""
        port = () if self.port == 22 else ("-p", str(self.port))
        return (*port, f"{self.user}@{self.host}")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host and self.port != 22 else self.host
        return f"{self.user}@{host}" + ("" if self.port == 22 else f":{self.port}")


def parse_login(text: str) -> Login:
    """Parse a login. ssh's own settings give what it lacks, such as the user. Raises ValueError with a sentence."""
    found = parse_address(text, "ssh", FORM)
    host = found.host
    argv = ["ssh", "-G", *(("-p", str(found.port)) if found.port else ())]
    argv += [*(("-l", found.user) if found.user else ()), host]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_RESOLVE_S, check=False)
    except FileNotFoundError:
        raise ValueError("this machine has no ssh: sudo apt-get install openssh-client") from None
    except subprocess.TimeoutExpired:
        raise ValueError(f"`ssh -G {host}` did not answer within {_RESOLVE_S} s; check ~/.ssh/config") from None
    if done.returncode:
        why = last_line(done.stderr) or f"exit status {done.returncode}"
        raise ValueError(f"ssh does not accept its own settings for {host}: {why}")
    values = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    return Login(values["user"], host, int(values["port"]), values.get("hostname", host))


def options(keyfile: str | None) -> list[str]:
    """Return the options of ssh for a connection that asks nothing and uses the user's own settings."""
    words = ["-x", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}"]
    return [*words, "-i", keyfile] if keyfile else words


@dataclass(frozen=True)
class _SshCause:
    """``pattern`` is a text of OpenSSH; ``message`` and ``act`` may contain {login}, {host}, {command} and {port}."""

    pattern: str
    message: str
    act: str


_CAUSES: Sequence[_SshCause] = (
    _SshCause(
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|Host key for .* has changed",
        "the host key of {host} is not the key that this machine knows: another board or another card answers there",
        "if this is right: ssh-keygen -R {known}; then: {command}",
    ),
    _SshCause(
        r"Host key verification failed",
        "this machine does not know the host key of {host}",
        "log in once and accept the key: {command}",
    ),
    _SshCause(
        r"until a valid user has been set up",
        "{host} is a new Raspberry Pi OS without a user: ssh cannot work yet",
        "create the user with screen and keyboard, or write the card again with a user in Raspberry Pi Imager",
    ),
    _SshCause(
        r"Permission denied|Too many authentication failures|No supported authentication methods",
        "{host} refused {login}: wrong user, or it does not have the key of this machine",
        "{copy} (it asks for the password once), or name the user and --keyfile FILE",
    ),
    _SshCause(
        r"Could not resolve hostname",
        "{host} is no host that this machine knows",
        "use the board's IP address: `hostname -I` on the board, or the list of devices in your router",
    ),
    _SshCause(
        r"Connection refused",
        "{host} answers, but no ssh server listens on its port {port}",
        "on the board: sudo raspi-config nonint do_ssh 0 (Raspberry Pi OS), or: sudo systemctl enable --now ssh",
    ),
    _SshCause(
        r"timed out|No route to host|Network is unreachable|Host is down|did not answer|no answer within",
        "no answer from {host}",
        "check that the board has power and a cable, and its address in the list of devices of your router",
    ),
)


def explain(login: Login, keyfile: str | None, why: str) -> SshError:
    """Return the error for a connection that ssh could not open. ``why`` is what ssh printed."""
    key = f"-i {keyfile} " if keyfile else ""
    where = f"[{login.host}]:{login.port}" if login.port != 22 else login.host
    facts = {
        "login": str(login),
        "host": login.host,
        "port": str(login.port),
        "known": f"'{where}'" if "[" in where else where,
        "command": f"ssh {key}{' '.join(login.words)}",
        "copy": f"ssh-copy-id {key}{' '.join(login.words)}",
    }
    for cause in _CAUSES:
        if re.search(cause.pattern, why, re.IGNORECASE):
            return SshError(cause.message.format(**facts), cause.act.format(**facts))
    last = last_line(why) or "no reason given"
    return SshError(f"no ssh connection to {login}: {last}", f"make this command work: {facts['command']}")


LOOK_S = 60.0
INSTALL_S = 600.0
_LOOK = r"""
LC_ALL=C; export LC_ALL; PATH=$PATH:/usr/sbin:/sbin
echo "host $(uname -n)"; echo "user $(id -un)"; echo "kernel $(uname -r)"; echo "machine $(uname -m)"
[ ! -r /etc/os-release ] || (. /etc/os-release; echo "system $PRETTY_NAME")
echo "cores $(getconf _NPROCESSORS_ONLN 2>/dev/null || nproc 2>/dev/null)"
echo "khz $(cat /sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq 2>/dev/null)"
echo "mhz $(sed -n 's/^cpu MHz.*: //p;/^cpu MHz/q' /proc/cpuinfo 2>/dev/null)"
echo lacks $(for p in %s; do [ -x "$(command -v $p)" ] || echo $p; done)
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
    the command that installs it. ``lacks`` are programs that only some metrics need. ``addresses`` maps network devices
    to their addresses, with the length of the prefix.
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
    lacks: tuple[str, ...] = ()

    @property
    def adding(self) -> str | None:
        """The command that installs what it lacks; None if the names of the packages are not known."""
        is_debian = self.installer is not None and "apt-get" in self.installer
        return f"DEBIAN_FRONTEND=noninteractive apt-get install -y {packages(self.lacks)}" if is_debian else None

    @property
    def who(self) -> str:
        return "this machine" if self.login is None else str(self.login)

    def facts_of(self, device: str) -> NicFacts:
        return self.facts.get(device, NicFacts())

    def linked(self) -> list[FoundNic]:
        """Return the wired NICs with a link. Devices of software count only if ssh comes in by one of them."""
        return [nic for nic in self.board.nics.values() if self._is_linked(nic)]

    def _is_linked(self, nic: FoundNic) -> bool:
        facts = self.facts_of(nic.device)
        if nic.is_stacked or facts.wireless or not facts.carrier:
            return False
        return nic.bus is not None or nic.device == self.management.device


def look_at(logins: Sequence[Login], keyfile: str | None) -> list[Machine | PinetError]:
    """Look at boards side by side. Return a machine, or the error, for each login."""

    def one(login: Login) -> Machine | PinetError:
        try:
            connection = _connect(login, keyfile)
            try:
                return read(connection.shell, login)
            finally:
                connection.close()
        except PinetError as error:
            return error

    return at_once(one, logins)


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
    done = shell.run(_LOOK.replace("%s", " ".join(OF_METRICS)), LOOK_S)
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
    return version, too_old(version)


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
        lacks=tuple(values.get("lacks", "").split()),
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
