"""Requirements of a virtual lab on this machine, and its root rights: of this user, or of a user namespace.

See user_namespaces(7), newuidmap(1) and unshare(1). A command in a user namespace sees the same files, but only a
loopback of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_pinet.errors import LabError
from pytest_pinet.execution.shell import last_line
from pytest_pinet.virtual.link_models import Shape
from pytest_pinet.virtual.spec import LabSpec

# A file: the commands that a virtual lab needs. The script ``system-packages``, which installs them, reads it, too.
COMMANDS = Path(__file__).with_name("lab-commands")


@dataclass(frozen=True)
class KernelFeature:
    """A kernel feature that the model of a NIC's bus (USB, PCIe) needs. If it is missing, the shell command ``trial``
    fails in an empty network namespace.

    A ``charged`` feature is needed only by a bus in which one direction slows the other.
    """

    config: str
    trial: str
    charged: bool = False

    def is_needed(self, shape: Shape) -> bool:
        """Return whether the bus of this shape needs the feature."""
        return shape.has_bus and (not self.charged or any(lane.charge for lane in shape.lanes or ()))


_FILTER = "tc qdisc replace dev lo clsact && tc filter add dev lo egress protocol all"
FEATURES: Mapping[str, KernelFeature] = {
    "ifb": KernelFeature("CONFIG_IFB", "ip link add name probe type ifb"),
    "act_mirred": KernelFeature(
        "CONFIG_NET_ACT_MIRRED", f"{_FILTER} prio 2 u32 match u32 0 0 action mirred egress redirect dev lo"
    ),
    "cls_bpf": KernelFeature("CONFIG_NET_CLS_BPF", f"{_FILTER} prio 1 bpf bytecode '1,6 0 0 0'", charged=True),
}
TRIAL_S = 20.0
_NO_ROOT = "the virtual lab needs root for its network namespaces, but this user is not root and `sudo -n true` fails"


def search_path() -> str:
    """Return PATH with the administrator's folders, which a user's PATH often lacks."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"


def check_commands() -> None:
    """Raise LabError if commands are missing. The error names their packages."""
    require(COMMANDS, "the virtual lab needs")


def packages_of(file: Path) -> dict[str, str]:
    """Return the Debian package of each command. The file has a command and its package in each line."""
    return dict(line.split() for line in file.read_text(encoding="utf-8").splitlines())


def require(commands: Path, who: str) -> None:
    """Check for the commands in a file, which ``who`` needs. Raises LabError."""
    packages = packages_of(commands)
    missing = [command for command in packages if shutil.which(command, path=search_path()) is None]
    if missing:
        wanted = " ".join(sorted({packages[command] for command in missing}))
        raise LabError(
            f"{who} {', '.join(missing)}, which this machine lacks", f"apt install --no-install-recommends {wanted}"
        )


def check_kernel(spec: LabSpec, root: Sequence[str]) -> None:
    """Raise LabError if the kernel lacks a feature for the lab's link models. The error names the feature and the NIC.

    ``root`` is the command prefix that runs a command as root.
    """
    needed: dict[str, str] = {}
    for nic in (nic for node in spec.nodes for nic in node.interfaces):
        shapes = [nic.model.usual, *(shape for _, shape in nic.model.variants)]
        for name, feature in FEATURES.items():
            if name not in needed and any(map(feature.is_needed, shapes)):
                needed[name] = f"{nic.interface} (link model {shapes[0].model})"
    missing = _missing([*needed], root) if needed else []
    if missing:
        who = "; ".join(f"{name} for {needed[name]}" for name in missing)
        configs = ", ".join(FEATURES[name].config for name in missing)
        raise LabError(
            f"this kernel lacks features that the virtual lab needs: {who}",
            f"modprobe {' '.join(missing)}, or use a kernel with {configs}, or remove these NICs from the lab file",
        )


def _missing(names: Sequence[str], root: Sequence[str]) -> list[str]:
    """Return the features whose trial fails. Empty if no namespace can be made: the lab's start reports that."""
    trials = [f"({FEATURES[name].trial}) >/dev/null 2>&1 || echo {name}" for name in names]
    script = "\n".join([f"PATH={search_path()}", *trials, ":"])
    argv = [*root, "unshare", "--net", "sh", "-c", script]
    try:
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=TRIAL_S)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split() if done.returncode == 0 else []


def may_be_root() -> bool:
    """Return whether this user can run commands as root without a question."""
    if os.geteuid() == 0:
        return True
    try:
        return subprocess.run(["sudo", "-n", "true"], check=False, capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def as_root() -> list[str]:
    """Return the command prefix that runs a command as root (empty for root). Raises LabError if there is no way."""
    if not may_be_root():
        raise LabError(
            _NO_ROOT,
            "run as root, or allow sudo without a password for this user",
        )
    return [] if os.geteuid() == 0 else ["sudo", "-n", "--"]


# sshd and lldpd run parts of themselves as other users, so one mapped user is not enough.
_NEW = ("unshare", "--user", "--map-root-user", "--map-auto", "--net", "--mount", "--")
_UP = ("sh", "-c", 'PATH="$PATH:/usr/sbin:/sbin"; ip link set lo up && exec "$@"', "sh")
# What a node of the lab needs: a network namespace of its own, its own /proc and /sys, files of other users.
_TRIAL = "unshare --net --pid --fork --mount sh -c 'mount -t proc proc /proc && mount -t sysfs sysfs /sys' && setpriv \
--reuid 1 --clear-groups true"


def check_user_namespaces() -> None:
    """Try what a virtual lab needs in a user namespace. Raises LabError with what is missing."""
    if shutil.which("newuidmap") is None:
        raise _cannot("newuidmap is missing (Debian package uidmap)")
    try:
        done = subprocess.run(
            [*_NEW, *_UP, "sh", "-c", _TRIAL], check=False, capture_output=True, text=True, timeout=TRIAL_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _cannot(str(error)) from None
    if done.returncode != 0:
        raise _cannot(last_line(done.stderr) or f"exit code {done.returncode}")


def replace_process(argv: Sequence[str]) -> None:
    """Replace this process by a command that is root in a new user namespace. Does not return."""
    words = [*_NEW, *_UP, *argv]
    os.execvp(words[0], words)


def _cannot(why: str) -> LabError:
    return LabError(
        f"{_NO_ROOT}; a user namespace cannot replace it here: {why}",
        "run as root, allow sudo without a password, or allow user namespaces (uidmap, a line in /etc/subuid)",
    )


# Debian packages of the virtual lab: which are missing, their installation, and its undoing.
#
# The list of packages and their installation are the shell script ``system-packages``, which a checkout also uses.


SCRIPT = Path(__file__).with_name("system-packages")
TIMEOUT_S = 900.0
# The lines of `apt-get --simulate` for a package that it would install or remove.
_STEP = re.compile(r"^(Inst|Remv|Purg) (\S+)", re.MULTILINE)


def missing_packages() -> list[str]:
    """Return the packages whose commands the virtual lab lacks on this machine."""
    return sorted(set(_run(["sh", str(SCRIPT)], FOR="list").split()))


def plan_installation(packages: Sequence[str]) -> list[str]:
    """Return all packages that apt would install, with dependencies. Raises LabError without apt or root."""
    if shutil.which("apt-get") is None:
        raise LabError(
            f"the virtual lab needs system packages, and this machine has no apt-get: {' '.join(packages)}",
            "install them; the names are Debian's",
        )
    root = as_root()
    _run([*root, "apt-get", "update", "-qq"])
    plan = _run([*root, "apt-get", "install", "--simulate", "--no-install-recommends", *packages])
    return sorted({name for step, name in _STEP.findall(plan) if step == "Inst"} - installed_packages())


def install_packages() -> None:
    """Install what is missing. No service is started or enabled. Raises LabError."""
    _run(["sh", str(SCRIPT)], FOR="demo", PYTHON=sys.executable)


def remove_packages(packages: Collection[str]) -> list[str]:
    """Remove installed packages and return them. Raises LabError if other packages need one of them."""
    there = sorted(installed_packages() & set(packages))
    if not there:
        return []
    root = as_root()
    remove = ["apt-get", "purge", "--yes", "-qq", *there]
    plan = _run([*root, *remove, "--simulate"])
    others = sorted({name for step, name in _STEP.findall(plan) if step != "Inst"} - set(there))
    if others:
        raise LabError(
            f"the system packages of the demo stay, because other packages need them now: {' '.join(others)}",
            f"when you need neither: apt-get purge {' '.join(there)}",
        )
    _run([*root, *remove])
    return there


def installed_packages() -> set[str]:
    """Return the names of all installed Debian packages."""
    lines = _run(["dpkg-query", "--show", "--showformat", "${db:Status-Abbrev} ${Package}\n"]).splitlines()
    return {line.split()[1] for line in lines if line.startswith("ii")}


def _run(argv: Sequence[str], **environment: str) -> str:
    """Run a command and return its output. Raises LabError with the end of what it printed."""
    own = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", **environment}
    try:
        done = subprocess.run(
            argv, env=own, capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"`{' '.join(argv)}` failed: {error}") from None
    if done.returncode != 0:
        output = f"{done.stdout}{done.stderr}".strip().splitlines()
        raise LabError(f"`{' '.join(argv)}` failed: {' '.join(output[-3:])}")
    return done.stdout
