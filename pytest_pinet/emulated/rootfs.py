"""Make the root file system of emulated boards from Debian packages: unpacked, not installed, without root."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO, cast

from pytest_pinet.builds.kernel_files import name_of
from pytest_pinet.emulated.packages import open_package
from pytest_pinet.model.lab import PI
from pytest_pinet.virtual.boot_files import login_files, shadow, sshd_config
from pytest_pinet.virtual.container import PATH

# What a card with systemd and the four network managers has beside the usual card. One of them runs on each board.
#
# Each manager configures ``mgmt0``, which carries ssh, and ``eth0`` and ``wlan1`` with fixed addresses (``wlan1``
# exists after ``modprobe mac80211_hwsim``). Other NICs are left to the manager's defaults.


MANAGER_PACKAGES = (
    *("dbus", "systemd", "systemd-sysv", "udev"),
    *("dhcpcd", "ifupdown", "network-manager", "hostapd", "iw", "wpasupplicant"),
)
# A Wi-Fi chip as the kernel simulates it, for an association that must not be lost.
MODULES = ("drivers/net/wireless/mac80211_hwsim.ko*", "drivers/net/bonding/*", "drivers/net/dummy.ko*", "fs/autofs/*")
MANAGEMENT, GATEWAY, TESTED, WIFI = "10.0.2.15/24", "10.0.2.2", "192.168.77.2/24", "192.168.88.2/24"
# Below this folder, each manager's files are at the path that they have on a board: the boot script copies them.
_SETTINGS = "usr/lib/pinet/managers"
_PROFILE = """\
[connection]
id={device}
uuid=11111111-2222-3333-4444-{number:012}
type=ethernet
interface-name={device}

[ipv4]
method=manual
address1={address}

[ipv6]
method=disabled
"""
_CONNECTIONS = "NetworkManager/system-connections"
_FILES = {
    f"NetworkManager/{_CONNECTIONS}/mgmt0.nmconnection": _PROFILE.format(
        device="mgmt0", number=1, address=f"{MANAGEMENT},{GATEWAY}"
    ),
    f"NetworkManager/{_CONNECTIONS}/eth0.nmconnection": _PROFILE.format(device="eth0", number=2, address=TESTED),
    f"NetworkManager/{_CONNECTIONS}/wlan1.nmconnection": _PROFILE.format(
        device="wlan1", number=3, address=WIFI
    ).replace("ethernet", "wifi")
    + "\n[wifi]\nmode=infrastructure\nssid=pinet\n",
    "systemd-networkd/systemd/network/10-mgmt0.network": (
        f"[Match]\nName=mgmt0\n[Network]\nAddress={MANAGEMENT}\nGateway={GATEWAY}\n"
    ),
    "systemd-networkd/systemd/network/20-eth0.network": f"[Match]\nName=eth0\n[Network]\nAddress={TESTED}\n",
    "systemd-networkd/systemd/network/20-wlan1.network": f"[Match]\nName=wlan1\n[Network]\nAddress={WIFI}\n",
    "systemd-networkd/systemd/network/30-others.network": "[Match]\nName=eth*\n[Network]\nDHCP=yes\n",
    "dhcpcd/dhcpcd.conf": (
        "duid\npersistent\nslaac private\nnohook wpa_supplicant\n"
        f"interface mgmt0\nstatic ip_address={MANAGEMENT}\nstatic routers={GATEWAY}\n"
        f"interface eth0\nstatic ip_address={TESTED}\ninterface wlan1\nstatic ip_address={WIFI}\n"
    ),
    "ifupdown/network/interfaces": (
        f"auto lo mgmt0 eth0\niface lo inet loopback\niface mgmt0 inet static\naddress {MANAGEMENT}\n"
        f"gateway {GATEWAY}\niface eth0 inet static\naddress {TESTED}\niface wlan1 inet static\naddress {WIFI}\n"
    ),
}
_BOOT_UNIT = """\
[Unit]
Description=Settings, NICs and ssh of an emulated board
DefaultDependencies=no
After=local-fs.target systemd-udev-trigger.service systemd-tmpfiles-setup.service dbus.socket
Before=network-pre.target
Wants=network-pre.target dbus.socket

[Service]
Type=oneshot
RemainAfterExit=yes
KillMode=process
ExecStart=/etc/init.d/boot
TimeoutStartSec=300
StandardOutput=journal+console
StandardError=journal+console
"""
_CONSOLE_UNIT = """\
[Unit]
Description=Login on the serial console
After=pinet-boot.service

[Service]
ExecStart=/usr/lib/pinet/console
Restart=always
RestartSec=0
KillMode=process
SendSIGHUP=yes
"""
_UNITS = "etc/systemd/system"
# The accounts that maintainer scripts would make.
ACCOUNTS = (
    "messagebus:x:101:101::/nonexistent:/usr/sbin/nologin\n"
    "systemd-network:x:102:102::/:/usr/sbin/nologin\n"
    "dhcpcd:x:103:65534::/usr/lib/dhcpcd:/bin/false\n"
)
GROUPS = "messagebus:x:101:\nsystemd-network:x:102:\nnetdev:x:104:\nsystemd-journal:x:105:\nshadow:x:42:\n"
MANAGER_FILES = {
    # An empty file: systemd writes an id of the board's own. Without the file it would enable all units.
    "etc/machine-id": "",
    # The initramfs of initramfs-tools mounts it read-only. For this entry, systemd makes it writable.
    "etc/fstab": "LABEL=rootfs / ext4 noatime 0 0\n",
    # dhcpcd's unit makes it writable, and does not start without it.
    "etc/resolv.conf": "",
    f"{_UNITS}/pinet-boot.service": _BOOT_UNIT,
    f"{_UNITS}/pinet-console.service": _CONSOLE_UNIT,
    **{f"{_SETTINGS}/{path}": text for path, text in _FILES.items()},
}
LINKS = {
    "var/run": "/run",
    "var/lock": "/run/lock",
    f"{_UNITS}/default.target": "/usr/lib/systemd/system/multi-user.target",
    f"{_UNITS}/multi-user.target.wants/pinet-boot.service": f"/{_UNITS}/pinet-boot.service",
    f"{_UNITS}/multi-user.target.wants/pinet-console.service": f"/{_UNITS}/pinet-console.service",
    f"{_UNITS}/serial-getty@.service": "/dev/null",
    f"{_UNITS}/getty-static.service": "/dev/null",
    # NetworkManager starts it by D-Bus.
    f"{_UNITS}/dbus-fi.w1.wpa_supplicant1.service": "/usr/lib/systemd/system/wpa_supplicant.service",
    # The boot script names the NICs.
    "etc/systemd/network/73-usb-net-by-mac.link": "/dev/null",
    "etc/systemd/network/99-default.link": "/dev/null",
}
# NetworkManager ignores profiles that others can read.
SECRET = (f"{_SETTINGS}/NetworkManager/{_CONNECTIONS}/",)


# Packages that our own code needs on a board, and some for interactive use.
PACKAGES = (
    *("base-files", "bash", "busybox-static", "coreutils", "ethtool", "findutils", "grep", "gzip", "hostname"),
    *("iperf3", "iproute2", "iputils-ping", "kmod", "login", "mawk", "mount", "nftables", "openssh-server"),
    *("passwd", "procps", "sed", "sudo", "tar", "util-linux", "xz-utils", "zstd"),
)


@dataclass(frozen=True)
class System:
    """What is on a card: packages, our own files by path, links by path, and kernel modules beside the usual ones.

    ``secret`` are the folders of files that only root may read.
    """

    packages: tuple[str, ...]
    files: Mapping[str, str]
    links: Mapping[str, str]
    modules: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()


# Packages that only maintainer scripts need. These scripts never run here.
_SKIPPED = ("adduser_", "debconf_", "dpkg_", "perl_", "perl-", "libperl", "ucf_", "usrmerge_", "init-system-helpers_")
_LEFT_OUT = ("usr/share/doc/", "usr/share/man/", "usr/share/locale/", "usr/share/info/", "usr/share/lintian/")
_MERGED = ("bin", "sbin", "lib")
_FOLDER, _FILE = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o644
# The user of Raspberry Pi OS, for boards on which root cannot log in.
_ACCOUNT = f"{PI}:x:1000:1000::/home/{PI}:/bin/bash\n"
_GROUPS = f"{PI}:x:1000:\nsudo:x:27:{PI}\n"
_PAM_SUDO = "".join(f"{kind} required pam_permit.so\n" for kind in ("auth", "account", "session"))
FILES = {
    **login_files("Debian on an emulated board", PATH, _ACCOUNT, _GROUPS),
    f"home/{PI}/.bashrc": "PS1='\\u@\\h:\\w $ '\nunset PROMPT_COMMAND HISTFILE\n",
    f"home/{PI}/.bash_profile": f". /home/{PI}/.bashrc\n",
    f"home/{PI}/.hushlogin": "",
    f"home/{PI}/.inputrc": "set enable-bracketed-paste off\n",
    f"etc/sudoers.d/010_{PI}-nopasswd": f"{PI} ALL=(ALL) NOPASSWD: ALL\n",
    # sudo asks PAM only for users who need a password, but it does not run without these entries.
    "etc/pam.d/sudo": _PAM_SUDO,
    "etc/shadow.image": shadow("*") + f"{PI}:*:19000:0:99999:7:::\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
    # Without this file, libpam fails for every service.
    "etc/pam.d/other": "".join(f"{kind} required pam_deny.so\n" for kind in ("auth", "account", "password", "session")),
    "etc/ssh/sshd_config_pinet": sshd_config(PATH, "10.0.2.15", 60),
}
# Our scripts in the guest, and their paths there.
_SCRIPTS = {
    "inittab": "etc/inittab",
    "boot": "etc/init.d/boot",
    "shutdown": "etc/init.d/shutdown",
    "mkinitramfs": "usr/sbin/mkinitramfs",
    "ask-name": "usr/lib/pinet/ask-name",
    "console": "usr/lib/pinet/console",
    "vcgencmd": "usr/bin/vcgencmd",
    "vcmailbox": "usr/bin/vcmailbox",
    "boot-modules": "usr/lib/pinet/boot-modules",
}
# Links that maintainer scripts would have made, and the link of init.
_LINKS = {
    "usr/bin/awk": "mawk",
    "usr/bin/sh": "bash",
    "usr/bin/less": "busybox",
    "usr/bin/vi": "busybox",
    "usr/bin/which": "which.debianutils",
    "usr/sbin/halt": "/usr/bin/busybox",
    "usr/sbin/init": "/usr/bin/busybox",
    "usr/sbin/poweroff": "/usr/bin/busybox",
    "usr/sbin/reboot": "/usr/bin/busybox",
}
BUSYBOX = System(PACKAGES, FILES, _LINKS)
# Real network managers need a real init. No maintainer script runs, so that our files also hold what those would make.
SYSTEMD = System(
    (*PACKAGES, *MANAGER_PACKAGES),
    {
        **FILES,
        **MANAGER_FILES,
        "etc/passwd": FILES["etc/passwd"] + ACCOUNTS,
        "etc/group": FILES["etc/group"] + GROUPS,
        # The manager sets the address after the start of sshd.
        "etc/ssh/sshd_config_pinet": sshd_config(PATH, "0.0.0.0", 60),
    },
    {**{path: target for path, target in _LINKS.items() if not path.startswith("usr/sbin/")}, **LINKS},
    MODULES,
    SECRET,
)
_FOLDERS = (
    *("boot/firmware", "dev", "proc", "root", "run", "sys", "tmp"),
    *("usr/bin", "usr/lib", "usr/sbin", "var/log", "var/tmp"),
)


def make_root(root: Path, packages: Sequence[Path], system: System = BUSYBOX) -> None:
    """Fill ``root`` with everything except the kernel's modules. Old contents are removed."""
    shutil.rmtree(root, ignore_errors=True)
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in _MERGED:
        (root / name).symlink_to(f"usr/{name}")
    for package in packages:
        if not package.name.startswith(_SKIPPED):
            _unpack(package, root)
    for path, text in system.files.items():
        _write(root / path, text, 0o600 if path.startswith(system.secret) else 0o644)
    for name, path in _SCRIPTS.items():
        _write(root / path, guest_file(name), 0o755)
    for path, target in system.links.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if (root / path).is_dir() and not (root / path).is_symlink():
            # A package has it as a folder (var/run), in which only its maintainer script would make something.
            shutil.rmtree(root / path)
        (root / path).unlink(missing_ok=True)
        (root / path).symlink_to(target)
    (root / "usr/lib/pinet/initramfs-base.cpio").write_bytes(initramfs_base(root / "usr/bin/busybox"))
    for folder in ("tmp", "var/tmp"):
        (root / folder).chmod(0o1777)
    (root / "root").chmod(0o700)


class Archive:
    """A ``newc`` cpio archive, the format of an initramfs. Its entries belong to root, in the order of addition."""

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}

    def add(self, path: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        """Add an entry, and its parent directories if they are missing. ``mode`` also has its type (``stat.S_IF...``).

        ``data`` is the contents of a file or the target of a link, ``device`` the numbers of a device.
        """
        parent, _, _ = path.rpartition("/")
        if parent and parent not in self._entries:
            self.add(parent, _FOLDER)
        self._entries[path] = _cpio_entry(path, mode, data, device, len(self._entries) + 1)

    def packed(self) -> bytes:
        """Return the archive. Another archive may be appended to it."""
        data = b"".join([*self._entries.values(), _cpio_entry("TRAILER!!!", 0, b"", (0, 0), 0)])
        return data + bytes(-len(data) % 512)


def _cpio_entry(path: str, mode: int, data: bytes, device: tuple[int, int], inode: int) -> bytes:
    # Field order and padding: Documentation/driver-api/early-userspace/buffer-format.rst of the kernel.
    name = path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    numbers = (inode, mode, 0, 0, links, 0, len(data), 0, 0, *device, len(name), 0)
    head = b"070701" + b"".join(b"%08x" % number for number in numbers) + name
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def initramfs_base(busybox: Path) -> bytes:
    """Return the part of an initramfs that is the same for all kernels: busybox and the init script."""
    archive = Archive()
    for folder in ("proc", "sys", "dev", "root", "lib"):
        archive.add(folder, _FOLDER)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add("bin/busybox", _FILE | 0o111, busybox.read_bytes())
    archive.add("bin/sh", stat.S_IFLNK | 0o777, b"busybox")
    archive.add("init", _FILE | 0o111, guest_file("initramfs-init").encode())
    archive.add("etc/boot-modules", _FILE, guest_file("boot-modules").encode())
    return archive.packed()


def initramfs(root: Path, release: str) -> bytes:
    """Return a complete initramfs for the kernel ``release``. ``root`` holds its modules."""
    base = (root / "usr/lib/pinet/initramfs-base.cpio").read_bytes()
    folder = root / "usr/lib/modules" / release
    archive = Archive()
    lists = ("modules.dep", "modules.alias", "modules.builtin", "modules.order", "modules.symbols")
    for path in (*boot_modules(folder), *lists):
        archive.add(f"lib/modules/{release}/{path}", _FILE, (folder / path).read_bytes())
    return base + archive.packed()


def boot_modules(folder: Path) -> list[str]:
    """Return the paths of the modules, with dependencies, that any board needs to mount its root file system."""
    depends: dict[str, list[str]] = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        depends[path] = rest.split()
    names = {name_of(path): path for path in depends}
    wanted: dict[str, None] = {}
    for line in guest_file("boot-modules").splitlines():
        name = line.split()[1]
        if name in names:
            wanted.update(dict.fromkeys([names[name], *depends[names[name]]]))
    return list(wanted)


def guest_file(name: str) -> str:
    """Return the text of a file in ``guest/``."""
    return resources.files("pytest_pinet.emulated").joinpath("guest", name).read_text(encoding="utf-8")


def _unpack(package: Path, root: Path) -> None:
    """Unpack the files of one package. Paths from before the /usr merge are changed to paths below /usr."""
    links: list[tuple[Path, Path]] = []
    with open_package(package) as tar:
        for member in tar:
            # Debian 13's base-files has these as links to /usr. They exist here already.
            if member.name.removeprefix("./").rstrip("/") in (*_MERGED, "lib64"):
                continue
            path = _merged(member.name.removeprefix("./"))
            if not path or path.startswith(_LEFT_OUT) or ".." in path.split("/"):
                continue
            target = root / path
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif member.issym():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                target.symlink_to(member.linkname)
            elif member.islnk():
                links.append((root / _merged(member.linkname.removeprefix("./")), target))
            elif member.isfile():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                with target.open("wb") as file:
                    shutil.copyfileobj(cast(IO[bytes], tar.extractfile(member)), file)
                target.chmod(stat.S_IMODE(member.mode) | stat.S_IRUSR)
    for source, target in links:
        target.unlink(missing_ok=True)
        os.link(source, target)


def _merged(path: str) -> str:
    first, slash, rest = path.rstrip("/").partition("/")
    if first == "lib64":
        first = "lib"
    return f"usr/{first}{slash}{rest}" if first in _MERGED else f"{first}{slash}{rest}"


def _write(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)
