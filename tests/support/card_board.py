"""A board that boots from a folder: a real sshd in its own namespaces, with boot files and modules in folders.

/proc/version, the command line and the boot id are what a firmware would make of the boot files at power-on. It boots
tryboot.txt once after a request by ``vcmailbox`` or by the argument of systemd's reboot, and config.txt without one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.builds.config_txt import pi_models
from pytest_pinet.builds.kernel_files import read_image
from pytest_pinet.errors import ConsoleError, SshError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.virtual.pi_firmware import NoKernel, choose
from tests.support import build_files as made
from tests.support.ports import free_port
from tests.support.sshd_settings import sshd_settings, start_board

CONFIG = "# mine\ndtparam=audio=on\nauto_initramfs=1\n[all]\nkernel=kernel8.img\n"
CMDLINE = "console=ttyAMA0 root=/dev/mmcblk0p2 rootwait\n"
_INIT = """\
set -eu
mount --make-rprivate /
mount --bind $CARD/boot /boot
mount --bind $CARD/boot/firmware /boot/firmware
# A machine without modules of its own has no such folder, and none is made there for a test.
lib=$(readlink -f /lib)
[ -d /lib/modules ] || mount -t overlay -o lowerdir=$lib,upperdir=$CARD/upper,workdir=$CARD/work overlay $lib
mkdir -p /lib/modules
mount --bind $CARD/modules /lib/modules
mount --bind $CARD/var /var/lib
# Its own /etc, since trials write there.
[ -d $CARD/etc ] || cp -a /etc $CARD/etc
mount --bind $CARD/etc /etc
# Not the start-up files of this machine's root, which every command over ssh would read.
mount -t tmpfs tmpfs /root
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd
mount -t proc proc /proc
if [ ! -e /proc/modules ]; then
    # A kernel without modules: what it lacks stands beside what it has.
    mkdir /run/proc && mount --move /proc /run/proc && mount -t tmpfs tmpfs /proc
    for f in /run/proc/[a-z]*; do ln -s $f /proc/; done
    : > /proc/modules
fi
mount --bind $CARD/said/modules /proc/modules
mount -t tmpfs tmpfs /sys/module
for m in $(cut -d' ' -f1 /proc/modules); do $CARD/bin/modprobe -q $m; done
mount --bind $CARD/said/version /proc/version
mount --bind $CARD/said/cmdline /proc/cmdline
mount --bind $CARD/said/notes /sys/kernel/notes
mount --bind $CARD/said/boot_id /proc/sys/kernel/random/boot_id
mount -t tmpfs tmpfs /sys/firmware
cp $CARD/said/fdt /sys/firmware/fdt
exec /usr/sbin/sshd -D -e -f $CARD/sshd_config
"""
_REBOOT = """\
#!/bin/sh
echo "reboot $*" > $CARD/requested.new
mv $CARD/requested.new $CARD/requested
"""
_VCMAILBOX = """\
#!/bin/sh
case $1 in
0x00038064) if [ $4 = 1 ]; then : > $CARD/tryboot; else rm -f $CARD/tryboot; fi ;;
esac
value=0x00000000; [ ! -e $CARD/tryboot ] || value=0x00000001
echo "0x0000001c 0x80000000 $1 0x00000004 0x80000004 $value 0x00000000"
"""
# Like mkinitramfs of Debian 12 (0.142), it needs the configuration of the kernel, and takes gzip if that lacks zstd.
# The first line of an initramfs says which modules its configuration asks for.
_MKINITRAMFS = """\
#!/bin/sh
[ "$1 $3" = "-o -d" ] && [ -d "/lib/modules/$5" ] || exit 1
if ! grep -q "^CONFIG_RD_ZSTD=y" "/boot/config-$5"; then
    grep -q "^CONFIG_RD_GZIP=y" "/boot/config-$5" ||
        { echo "E: gzip compression (CONFIG_RD_GZIP) not supported by kernel" >&2; exit 1; }
fi
{ sed 's/#.*//' "$4/modules" | xargs; ls "/lib/modules/$5"; } > "$2"
"""
# The kernel of this machine has another release than that of the board.
_UNAME = """\
#!/bin/sh
release=$(cut -d' ' -f3 /proc/version)
case "$*" in
-r) echo $release ;;
-m) echo aarch64 ;;
-rm) echo $release aarch64 ;;
*) echo "Linux pi4b-1 $release #1 SMP PREEMPT aarch64 GNU/Linux" ;;
esac
"""
# These commands have the readable effects of the real ones on a kernel. A file that contains "refuse" is rejected.
_LOAD = """\
#!/bin/sh
options=-q; [ "$1" != -q ] || shift
case $1 in -a) exit 0 ;; */*) file=$1 ;; *) file=$CARD/known/$1.ko; options= ;; esac
name=${1##*/}; name=${name%%.ko*}; shift
! grep -q refuse $file || { echo "insmod: ERROR: could not insert module $file: Invalid module format" >&2; exit 1; }
mkdir -p /sys/module/$name/parameters; echo live > /sys/module/$name/initstate
tr '\\0' '\\n' < $file | sed -n 's/^srcversion=//p' > /sys/module/$name/srcversion
for o; do echo ${o#*=} > /sys/module/$name/parameters/${o%%=*}; done
grep -q "^$name " /proc/modules || echo "$name 16384 0 - Live 0x0" >> /proc/modules
"""
_UNLOAD = """\
#!/bin/sh
grep -q "^$1 " /proc/modules || { echo "rmmod: ERROR: Module $1 is not currently loaded" >&2; exit 1; }
left=$(grep -v "^$1 " /proc/modules); echo "$left" > /proc/modules; rm -rf /sys/module/$1
"""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Tools that a board needs and that busybox does not have in this form.
_BESIDE_BUSYBOX = ("depmod", "unshare")
KNOWN_RELEASE = "6.12.20-good"
KNOWN_VERSION = made.VERSION.replace(made.RELEASE, KNOWN_RELEASE)
KNOWN_KERNEL = made.image(KNOWN_RELEASE, build_id=bytes(20))
DEVICE_TREES = ("bcm2711-rpi-4-b.dtb",)
UP_S = 60.0
_TOOLS = f"{os.environ['PATH']}:/usr/sbin:/sbin"


def ssh_to(folder: Path, port: int, kind: type[SshShell] = SshShell, master: Path | None = None) -> SshShell:
    """Return a shell on the board over ssh.

    ``master``: the socket of one connection for all commands, which the first command opens. Without it each command
    has its own connection, which takes ten times longer.
    """
    options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    options += ["-o", "ConnectTimeout=30", "-o", "BatchMode=yes", "-i", str(folder / "key"), "-p", str(port)]
    if master is not None:
        options += ["-o", f"ControlPath={master}", "-o", "ControlMaster=auto", "-o", "ControlPersist=yes"]
    return kind(CardBoard.name, ["ssh", "-x", *options, "-l", "root", "127.0.0.1", "--"])


class CardBoard:
    """Implements the Board interface of deployments.

    A kernel whose release, or a word of whose command line, is in ``broken`` does not come up.
    """

    name = "pi4b-1"
    model = "pi4b"
    boots = True
    has_power = True
    boot_timeout_s = 180.0
    record = None
    knows_tryboot = True
    # The boot folder of the other slot, which a card with A/B boots for a trial.
    other_slot: Path | None = None

    def __init__(self, folder: Path, netboot: bool = False, without: Sequence[str] | None = None) -> None:
        self.folder = folder
        # What the firmware makes of a device tree; it passes on all others unchanged.
        self.edited_trees: dict[bytes, bytes] = {}
        self.firmware = folder / ("tftp" if netboot else "boot/firmware")
        self.broken: set[str] = set()
        self.booted_by: list[str] = []
        self.power_cycles = 0
        self.warnings: list[str] = []
        self.drivers: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        # A test and the board itself may request a boot at the same time.
        self._lock = threading.Lock()
        for name in ("boot/firmware", "modules", "var", "said", "bin", "upper", "work", "known", "tftp", "conf"):
            (folder / name).mkdir(parents=True)
        commands = {"reboot": _REBOOT, "vcmailbox": _VCMAILBOX, "mkinitramfs": _MKINITRAMFS, "rmmod": _UNLOAD}
        commands |= {"modprobe": _LOAD, "insmod": _LOAD, "uname": _UNAME}
        for name, script in commands.items():
            (folder / "bin" / name).write_text(script)
            (folder / "bin" / name).chmod(0o755)
        self.port = free_port()
        path = f"{folder}/bin:{_PATH}" if without is None else f"{folder}/bin"
        config = sshd_settings(folder, "127.0.0.1", self.port) + f"SetEnv PATH={path} CARD={folder}\n"
        if without is not None:
            _install_busybox(folder / "bin", without)
            config += f'ForceCommand exec {folder}/bin/sh -c "$SSH_ORIGINAL_COMMAND"\n'
        (folder / "sshd_config").write_text(config)
        (self.firmware / "config.txt").write_text(CONFIG)
        (self.firmware / "cmdline.txt").write_text(CMDLINE)
        # From the network, firmware stays in a folder that has it.
        (self.firmware / "start4.elf").write_bytes(b"firmware")
        (self.firmware / "kernel8.img").write_bytes(KNOWN_KERNEL)
        (self.firmware / "initramfs8").write_bytes(b"known-good initramfs")
        (self.firmware / "bcm2711-rpi-4-b.dtb").write_bytes(b"known-good tree")
        (folder / "modules" / KNOWN_RELEASE).mkdir()
        # A short path: the name of a socket has at most 107 bytes.
        self._master = Path(tempfile.mkdtemp(prefix="pinet-card-")) / "master"
        self.shell = ssh_to(folder, self.port, master=self._master)

    # -- power and firmware ---------------------------------------------------------------------------------------

    def reset(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            # A master that noticed its lost connection only later would break the first command after the boot.
            leave = [self.shell.argv[0], "-O", "exit", *self.shell.argv[1:-1]]
            subprocess.run(leave, capture_output=True, timeout=20, check=False)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def power_cycle(self) -> None:
        self.power_cycles += 1
        (self.folder / "requested").unlink(missing_ok=True)
        (self.folder / "tryboot").unlink(missing_ok=True)
        self._boot("")
        self.wait()

    def reboot(self, command: str) -> None:
        """Run the deployment's command, then boot. The command must call ``reboot``."""
        at_once = command.replace("sleep 1", "sleep 0")
        assert self.shell.run(f"{{ {at_once}; }} </dev/null >/dev/null 2>&1").returncode == 0
        assert self.obey(), "it did not call reboot"
        self.wait()

    def obey(self) -> bool:
        """Boot if a process on the board has called ``reboot`` since the last time. Return whether it did."""
        requested = self.folder / "requested"
        try:
            words = requested.read_text().split()
        except FileNotFoundError:
            return False
        requested.unlink()
        self._boot(" ".join(words[1:]))
        return True

    def lock_for_trial(self) -> None:
        """Take no lock: its power can be switched."""

    def warn(self, warning: str) -> None:
        self.warnings.append(warning)

    def driver(self, name: str) -> Any:
        return self.drivers.get(name)

    def _boot(self, argument: str) -> None:
        with self._lock:
            self._boot_alone(argument)

    def _boot_alone(self, argument: str) -> None:
        self.reset()
        flag = self.folder / "tryboot"
        tryboot = self.knows_tryboot and (flag.exists() or argument == "0 tryboot")
        flag.unlink(missing_ok=True)
        other = self.other_slot if tryboot else None
        try:
            read = partial(_read, other or self.firmware)
            boot = choose(read, pi_models()[self.model], tryboot and other is None, DEVICE_TREES)
        except NoKernel:
            return
        source = boot.names[0].rpartition("/")[0] + "/" if "/" in boot.names[0] else "config.txt"
        self.booted_by.append("other slot" if other is not None else source)
        identity = read_image(boot.kernel)
        notes = boot.kernel[boot.kernel.index(b"\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0") :][:36]
        assert boot.initramfs is not None or not (self.firmware / "initramfs8").exists()
        if self.broken & {identity.release, *boot.cmdline.split()}:
            return
        said = self.folder / "said"
        for name, text in (
            ("version", f"{identity.version}\n"),
            ("cmdline", f"{boot.cmdline}\n"),
            ("boot_id", f"{uuid.uuid4()}\n"),
        ):
            (said / name).write_text(text)
        (said / "notes").write_bytes(notes)
        tree = boot.device_tree or b""
        (said / "fdt").write_bytes(self.edited_trees.get(tree, tree))
        (said / "modules").write_text("".join(f"{path.stem} 16384 0 - Live 0x0\n" for path in self.known_modules))
        self._process = start_board(_INIT, self.folder, "CARD")

    def wait(self) -> None:
        """Wait until the board answers. Raises ConsoleError."""

        def up() -> bool:
            try:
                # Only the first answer of each shell has this long timeout.
                return ssh_to(self.folder, self.port, master=self._master).run("true", timeout_s=UP_S).returncode == 0
            except SshError:
                return False

        if self._process is None or not Deadline(UP_S).wait_until(up):
            raise ConsoleError(f"{self.name} does not answer on its serial console", "look at it")

    @property
    def powered(self) -> bool:
        return self._process is not None

    @property
    def known_modules(self) -> list[Path]:
        """Return the modules that its known-good build loads: the files in ``known``."""
        return sorted((self.folder / "known").glob("*.ko"))

    # -- what a test asks -----------------------------------------------------------------------------------------

    def files(self) -> dict[str, bytes]:
        """Return all files of its boot partition, its modules and /var/lib."""
        found = {}
        for base in ("boot", "modules", "var", "tftp"):
            for path in sorted((self.folder / base).rglob("*")):
                found[str(path.relative_to(self.folder))] = path.read_bytes() if path.is_file() else b""
        return found


def _read(folder: Path, name: str) -> bytes | None:
    path = folder / name
    return path.read_bytes() if path.is_file() else None


def _install_busybox(folder: Path, without: Sequence[str]) -> None:
    """Put the commands of busybox into a folder, except existing files and the names in ``without``."""
    busybox = shutil.which("busybox", path=_TOOLS)
    assert busybox is not None
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        if name not in without and not (folder / name).exists():
            (folder / name).symlink_to(busybox)
    for name in _BESIDE_BUSYBOX:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(str(shutil.which(name, path=_TOOLS)))


@contextmanager
def card_board(
    folder: Path,
    netboot: bool = False,
    modules: Mapping[str, bytes] | None = None,
    without: Sequence[str] | None = None,
) -> Iterator[CardBoard]:
    """Yield a board that has booted its known-good build, which loads these modules.

    ``without``: the board has only busybox, and its busybox lacks these commands. None: it has the tools of Debian.
    """
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    missing = [name for name in ("sshd", "depmod", "unshare") if shutil.which(name, path=_TOOLS) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")
    if without is not None and shutil.which("busybox", path=_TOOLS) is None:
        pytest.skip("busybox is not installed")
    board = CardBoard(folder, netboot, without)
    for name, data in (modules or {}).items():
        (folder / "known" / f"{name}.ko").write_bytes(data)
    try:
        board.power_cycle()
        yield board
    finally:
        board.reset()
        shutil.rmtree(board._master.parent, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
