"""The files that a virtual board or switch boots with: accounts, ssh, login, boot log, PHY, PCIe."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_pinet.model.lab import Node, Switch
from pytest_pinet.virtual.container import PATH
from pytest_pinet.virtual.loopback import LOOPBACK
from pytest_pinet.virtual.pi_firmware import LARGEST_PAYLOAD, BootSettings
from pytest_pinet.virtual.spec import InterfaceSpec, NodeSpec

# Accounts and logins of virtual and emulated boards, for users and labgrid: ssh, console login, shell.


_PASSWD = (
    "root:x:0:0:root:/root:/bin/bash",
    "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin",
    "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin",
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin",
)
_GROUPS = "root:x:0:\ndaemon:x:1:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nutmp:x:43:\nnogroup:x:65534:\n"
_PAM_LOGIN = """\
auth required pam_unix.so nullok nodelay
account required pam_permit.so
password required pam_permit.so
session required pam_permit.so
"""


def login_files(system: str, path: str, account: str = "", group: str = "") -> dict[str, str]:
    """Return the files of accounts, console login and shell by path, without the password.

    ``system`` is the name that the login prompt shows, ``path`` the PATH of all shells. ``account`` and ``group`` are
    lines of one more user.
    """
    return {
        "etc/passwd": "".join(f"{line}\n" for line in _PASSWD) + account,
        "etc/group": _GROUPS + group,
        "etc/issue": f"{system} \\n\n\n",
        "etc/motd": "",
        "etc/environment": "",
        "etc/default/locale": "",
        "etc/pam.d/login": _PAM_LOGIN,
        # No timeout, since login would print a message each minute on the console.
        "etc/login.defs": f"LOGIN_TIMEOUT 0\nLOGIN_RETRIES 5\nENV_SUPATH PATH={path}\nENV_PATH PATH={path}\n"
        "HUSHLOGIN_FILE .hushlogin\n",
        # Bracketed paste would print escape sequences before the prompt that labgrid's ShellDriver waits for.
        "root/.inputrc": "set enable-bracketed-paste off\nset bell-style none\n",
        "root/.bashrc": "PS1='\\u@\\h:\\w# '\nunset PROMPT_COMMAND HISTFILE\n",
        "root/.bash_profile": f"PATH={path}\nexport PATH\nmesg n 2>/dev/null\n. /root/.bashrc\n",
        "root/.hushlogin": "",
    }


def shadow(password_hash: str) -> str:
    """Return ``/etc/shadow`` with root's password."""
    locked = "".join(f"{name}:*:19000::::::\n" for name in ("daemon", "sshd", "nobody"))
    return f"root:{password_hash}:19000:0:99999:7:::\n{locked}"


def sshd_config(path: str, address: str, grace_s: int) -> str:
    """Return the configuration of sshd, with key logins only, at this address.

    OpenSSH's default key exchange (sntrup761) takes 0.1 s of processor time per connection. A lab inside one machine
    does not need it.
    """
    return f"""\
Port 22
ListenAddress {address}
HostKey /run/pinet/host_key
AuthorizedKeysFile /run/pinet/authorized_keys
PidFile none
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
PrintLastLog no
MaxStartups 200
MaxSessions 200
LoginGraceTime {grace_s}
KexAlgorithms curve25519-sha256
SetEnv PATH={path}
Subsystem sftp internal-sftp
"""


# The commands of the stand-in firmware come first.
_PATH = f"/run/pinet/bin:{PATH}"

# Reports the values that config.txt set at power-on, and the throttling of `pinet lab degrade --throttle`. A virtual
# board has no clocks, voltages or temperatures to report.
_VCGENCMD = """\
#!/bin/sh
case "$1" in
get_config) grep "^$2=" /run/pinet/firmware || echo "$2 is unknown" ;;
get_throttled) read -r bits </run/pinet/throttled && echo "throttled=0x$bits" ;;
*) echo "the firmware of a virtual board does not know the command $1" >&2; exit 1 ;;
esac
"""
# The mailbox of the firmware, as on a Raspberry Pi: sets and reads the request for one boot with tryboot.txt.
_VCMAILBOX = """\
#!/bin/sh
requested=/run/pinet/mailbox/tryboot
case "$1 $2 $3" in
"0x00038064 4 0") if [ "$4" = 1 ]; then : >$requested; else rm -f $requested; fi || exit 1 ;;
"0x00030064 4 0") ;;
*) echo "the firmware of a virtual board does not know the tag $1" >&2; exit 1 ;;
esac
value=0x00000000; [ ! -e $requested ] || value=0x00000001
echo "0x0000001c 0x80000000 $1 0x00000004 0x80000004 $value 0x00000000"
"""
# As `poweroff`, with a request for the firmware to boot the board again.
_REBOOT = "#!/bin/sh\n: >/run/pinet/mailbox/reboot && kill -USR2 1\n"
# The boot partition is a folder of this machine. All else that findmnt reports is the truth.
_FINDMNT = """\
#!/bin/sh
PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
[ "$*" != "-rnvo SOURCE,TARGET,FSTYPE,OPTIONS" ] || end="/dev/mmcblk0p1 /boot/firmware vfat rw,relatime"
findmnt "$@" && echo "${end:-}"
"""
# As busybox does it: PID 1 ends the machine. The stand-in for sync does not write out the disks of the host.
_POWEROFF = "#!/bin/sh\nkill -USR2 1\n"
_SYNC = "#!/bin/sh\n"
# Send LLDP every second. With the usual interval, a query for a neighbour after a boot would wait 30 s.
_LLDPD = """\
configure lldp tx-interval 1
configure lldp tx-hold 4
configure lldp portidsubtype ifname
configure system hostname {name}
"""
# The folder in which a board leaves its requests for the firmware.
MAILBOX = "mailbox"
# Only the parts of lspci's output that are read. DevCtl shows the payload that selects the link model.
_PCIE_DEVICE = """\
{address} {title}
{buses}\tCapabilities: [ac] Express
\t\tDevCap:\tMaxPayload {most} bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr- NonFatalErr- FatalErr- UnsupReq-
\t\t\tMaxPayload {payload} bytes, MaxReadReq 512 bytes

"""
# Prints the same for any option. The real lspci would show the host's devices.
_LSPCI = "#!/bin/sh\ncat /run/pinet/lspci\n"
# Reports the driver and the place of each NIC in `ethtool -i`, because all are veth. A renamed NIC keeps them.
_ETHTOOL = """\
#!/bin/sh
PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
[ "$# $1" = "2 -i" ] && read -r mac <"/sys/class/net/$2/address"
case $mac in
{cases}*) exec ethtool "$@" ;;
esac
ethtool "$@" | while read -r line; do
    case $line in
    driver:*) echo "driver: $driver" ;;
    bus-info:*) echo "bus-info: $place" ;;
    *) echo "$line" ;;
    esac
done
"""
_CASE = "{mac}) driver={driver} place={place} ;;\n"


def write_node(directory: Path, spec: NodeSpec, keys: Path, boot: BootSettings, throttled: int = 0) -> None:
    """Write the files that ``node-init.sh`` expects for a board with these boot settings. Old files are removed.

    ``throttled`` are the bits that the firmware reports.
    """
    node = spec.node
    _write_common(directory, node.name, keys, LOOPBACK if spec.management is None else spec.management.host)
    _write(directory / "bootlog-early", boot_log_early(node, boot))
    _write(directory / "bootlog-late", _boot_log_late(spec))
    _write(directory / "cmdline", f"{boot.cmdline}\n")
    _write(directory / "model", f"{node.board.model}\0")
    _write(directory / "firmware", "".join(f"{name}={value}\n" for name, value in boot.answers().items()))
    scripts = {"vcgencmd": _VCGENCMD, "vcmailbox": _VCMAILBOX, "reboot": _REBOOT, "findmnt": _FINDMNT}
    scripts |= {"poweroff": _POWEROFF, "sync": _SYNC, "lspci": _LSPCI, "ethtool": _ethtool_script(spec.interfaces)}
    for name, script in scripts.items():
        _write(directory / "bin" / name, script, 0o755)
    (directory / MAILBOX).mkdir()
    _write(directory / "throttled", f"{throttled:x}\n")
    cards = [nic.bus_info for nic in spec.interfaces if nic.is_card]
    _write(directory / "lspci", _lspci_output(cards, boot.payload))
    for interface in node.interfaces:
        _write_phy(directory, interface.device, interface.speed_mbps)


def write_switch(directory: Path, switch: Switch, keys: Path, speeds_mbps: Mapping[str, int]) -> None:
    """Write the files for a switch. ``speeds_mbps`` are the speeds by port."""
    _write_common(directory, switch.name, keys, LOOPBACK)
    for port, speed in speeds_mbps.items():
        _write_phy(directory, port, speed)


def _write_phy(directory: Path, device: str, speed_mbps: int) -> None:
    """Write the speed and duplex mode that the PHY of a device has at boot.

    `VirtualSwitch.negotiated` writes a later speed of a switch port.
    """
    _write(directory / "phy" / device / "speed", f"{speed_mbps}\n")
    _write(directory / "phy" / device / "duplex", "full\n")


def _write_common(directory: Path, name: str, keys: Path, address: str) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    for path, text in login_files("Raspberry Pi OS (virtual)", _PATH, *_lldpd_account()).items():
        _write(directory / path, text)
    _write(directory / "etc" / "hostname", f"{name}\n")
    _write(directory / "etc" / "hosts", f"127.0.0.1 localhost {name}\n::1 localhost\n")
    _write(directory / "etc" / "shadow", shadow((keys / "console_password.hash").read_text()), 0o600)
    _write(directory / "sshd_config", sshd_config(_PATH, address, 30))
    _write(directory / "lldpd.conf", _LLDPD.format(name=name))
    _write(directory / "authorized_keys", (keys / "id_ed25519.pub").read_text())
    _write(directory / "host_key", (keys / "host_key").read_text(), 0o600)
    # sshd and login refuse key and password files of other users. Without this, they would belong to the lab's user.
    for written in (directory, *directory.rglob("*")):
        os.chown(written, 0, 0)


def _lspci_output(cards: Sequence[str], payload: int) -> str:
    """Return the output of ``lspci -D -vv``: for each address of a card a bridge, and the card behind it."""
    found = ""
    for number, address in enumerate(cards):
        bus = address.split(":")[1]
        buses = f"\tBus: primary=00, secondary={bus}, subordinate={bus}, sec-latency=0\n"
        words = {"most": LARGEST_PAYLOAD, "payload": payload}
        found += _PCIE_DEVICE.format(
            address=f"0000:00:{number:02x}.0", title="PCI bridge: virtual", buses=buses, **words
        )
        found += _PCIE_DEVICE.format(address=address, title="Ethernet controller: virtual", buses="", **words)
    return found


def _ethtool_script(nics: Sequence[InterfaceSpec]) -> str:
    """Return the script that replaces ethtool on a board with these NICs."""
    cases = (
        _CASE.format(mac=nic.mac, driver=shlex.quote(nic.interface.nic.driver), place=shlex.quote(nic.bus_info))
        for nic in nics
    )
    return _ETHTOOL.format(cases="".join(cases))


def _lldpd_account() -> tuple[str, str]:
    """Return the passwd and group lines of lldpd's user. It has the host's ids, which no other user here has."""
    for name in ("_lldpd", "lldpd"):  # Debian's name, and the name in other distributions
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return f"{name}:x:{found.pw_uid}:{found.pw_gid}::/run/lldpd:/usr/sbin/nologin\n", f"{name}:x:{found.pw_gid}:\n"
    return "", ""


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def boot_log_early(node: Node, boot: BootSettings) -> str:
    """Return the kernel messages from before the search for the root file system."""
    release = os.uname().release
    return "".join(
        f"[{stamp:12.6f}] {line}\n"
        for stamp, line in (
            (0.0, "Booting Linux on physical CPU 0x0000000000"),
            (0.0, f"Linux version {release}"),
            (0.0, f"Machine model: {node.board.title}"),
            (0.0, f"Kernel command line: {boot.cmdline}"),
            (0.001183, "Console: colour dummy device 80x25"),
            (0.042911, "smp: Bringing up secondary CPUs ..."),
            (0.198120, "NET: Registered PF_NETLINK/PF_ROUTE protocol family"),
        )
    )


def _boot_log_late(spec: NodeSpec) -> str:
    lines = ["EXT4-fs (mmcblk0p2): mounted filesystem ro", "Run /sbin/init as init process"]
    for nic in spec.interfaces:
        own = nic.interface
        lines.append(f"{own.device}: Link is Up - {own.speed_mbps}Mbps/Full - flow control off ({nic.mac})")
    return "".join(f"[{1.2 + 0.05 * index:12.6f}] {line}\n" for index, line in enumerate(lines))
