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
from pytest_pinet.emulated import managers
from pytest_pinet.emulated.packages import open_package
from pytest_pinet.model.lab import PI
from pytest_pinet.virtual.container import PATH
from pytest_pinet.virtual.logins import login_files, shadow, sshd_config

# Packages that our own code needs on a board, and some for interactive use.
PACKAGES = (
    *("base-files", "bash", "busybox-static", "coreutils", "ethtool", "findutils", "grep", "gzip", "hostname"),
    *("iperf3", "iproute2", "iputils-ping", "kmod", "login", "mawk", "mount", "openssh-server", "passwd"),
    *("procps", "sed", "sudo", "tar", "util-linux", "xz-utils", "zstd"),
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
    (*PACKAGES, *managers.PACKAGES),
    {
        **FILES,
        **managers.FILES,
        "etc/passwd": FILES["etc/passwd"] + managers.ACCOUNTS,
        "etc/group": FILES["etc/group"] + managers.GROUPS,
        # The manager sets the address after the start of sshd.
        "etc/ssh/sshd_config_pinet": sshd_config(PATH, "0.0.0.0", 60),
    },
    {**{path: target for path, target in _LINKS.items() if not path.startswith("usr/sbin/")}, **managers.LINKS},
    managers.MODULES,
    managers.SECRET,
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
