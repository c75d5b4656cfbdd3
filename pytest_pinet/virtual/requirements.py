"""What a machine needs to carry a virtual lab."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_pinet.errors import LabError
from pytest_pinet.virtual.link_models import Bus
from pytest_pinet.virtual.spec import LabSpec

# Command -> Debian package.
PACKAGES = {
    "agetty": "util-linux",
    "ip": "iproute2",
    "iperf3": "iperf3",
    "lldpd": "lldpd",
    "login": "login",
    "mount": "mount",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "setsid": "util-linux",
    "snmpd": "snmpd",
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "tc": "iproute2",
    "unshare": "util-linux",
}


@dataclass(frozen=True)
class Feature:
    """Something that buses need and a kernel may lack; ``trial`` (shell) fails in an empty namespace where it does.

    ``charged``: only those buses need it whose directions take from each other.
    """

    config: str
    trial: str
    charged: bool = False

    def needed(self, bus: Bus) -> bool:
        """Whether this bus needs it."""
        return not self.charged or any(lane.charge for lane in (bus.tx, bus.rx) if lane is not None)


_FILTER = "tc qdisc replace dev lo clsact && tc filter add dev lo egress protocol all"
FEATURES: Mapping[str, Feature] = {
    "ifb": Feature("CONFIG_IFB", "ip link add name probe type ifb"),
    "act_mirred": Feature(
        "CONFIG_NET_ACT_MIRRED", f"{_FILTER} prio 2 u32 match u32 0 0 action mirred egress redirect dev lo"
    ),
    "cls_bpf": Feature("CONFIG_NET_CLS_BPF", f"{_FILTER} prio 1 bpf bytecode '1,6 0 0 0'", charged=True),
}
TRIAL_S = 20.0
# A user's PATH often lacks the directories for administrators.
SEARCH = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"


def check_commands() -> None:
    """Raises LabError that names the packages of all commands that are missing."""
    require(PACKAGES, "the virtual lab needs")


def require(packages: Mapping[str, str], who: str) -> None:
    """``packages`` leads from a command to its Debian package; ``who`` needs them. Raises LabError."""
    missing = [command for command in packages if shutil.which(command, path=SEARCH) is None]
    if missing:
        wanted = " ".join(sorted({packages[command] for command in missing}))
        raise LabError(
            f"{who} {', '.join(missing)}, which this machine lacks", f"apt install --no-install-recommends {wanted}"
        )


def check_kernel(spec: LabSpec, root: Sequence[str]) -> None:
    """Raises LabError that names what the kernel lacks of what this lab's link models need, and which NIC needs it.

    ``root`` are the words that make a command run as root.
    """
    needed: dict[str, str] = {}
    for node in spec.nodes:
        for interface in node.interfaces:
            shapes = [interface.model.usual, *(shape for _, shape in interface.model.variants)]
            buses = [shape.bus for shape in shapes if shape.bus is not None]
            for name, feature in FEATURES.items():
                if name not in needed and any(feature.needed(bus) for bus in buses):
                    needed[name] = f"{node.name}:{interface.name} (link model {shapes[0].model})"
    missing = _missing([*needed], root) if needed else []
    if missing:
        who = "; ".join(f"{name} for {needed[name]}" for name in missing)
        configs = ", ".join(FEATURES[name].config for name in missing)
        raise LabError(
            f"the virtual lab needs what this kernel lacks: {who}",
            f"modprobe {' '.join(missing)}, or a kernel with {configs}, or leave such NICs out of the lab file",
        )


def _missing(names: Sequence[str], root: Sequence[str]) -> list[str]:
    """Those that fail; none where not even a namespace can be made, which whoever makes the lab's own tells better."""
    trials = [f"({FEATURES[name].trial}) >/dev/null 2>&1 || echo {name}" for name in names]
    script = "\n".join([f"PATH={SEARCH}", *trials, ":"])
    argv = [*root, "unshare", "--net", "sh", "-c", script]
    try:
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=TRIAL_S)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split() if done.returncode == 0 else []


def as_root() -> list[str]:
    """The words that make a command run as root; none for root. Raises LabError where there is no way."""
    if os.geteuid() == 0:
        return []
    try:
        allowed = subprocess.run(["sudo", "-n", "true"], check=False, capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        allowed = False
    if not allowed:
        raise LabError(
            "the virtual lab needs root for its network namespaces, and neither are you root "
            "nor does `sudo -n true` work without a password",
            "run as root, or allow sudo without a password for this user",
        )
    return ["sudo", "-n", "--"]
