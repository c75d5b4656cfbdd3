"""Which modules a board needs to boot: of its devices, file systems and PHYs, and what its known-good kernel has.

The known-good kernel may have built in what is a module of the build. So the hardware, the mounts and the list of what
is built in are read, and not only the loaded modules.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_pinet.builds.module import name_of
from pytest_pinet.builds.tree import matching_modules, with_dependencies
from pytest_pinet.evidence.build import marked, split_marked
from pytest_pinet.evidence.nfs_root import NFS_ROOT
from pytest_pinet.execution.shell import Shell
from pytest_pinet.model.build import ModuleId

TIMEOUT_S = 60.0
_UP = (
    "PATH=$PATH:/usr/sbin:/sbin; up() { p=$(readlink -f $1); while case $p in */sys/devices/*) ;; *) false ;; esac; do"
    " [ ! -r $p/modalias ] || cat $p/modalias; p=${p%/*}; done; };"
    " nics() { up $root/sys/class/net/$1/device; for l in $root/sys/class/net/$1/lower_*; do"
    " [ ! -e $l ] || nics ${l##*/lower_}; done; }"
)
_PARTS = {
    "loaded": "cut -d' ' -f1 /proc/modules",
    "built_in": "cat /lib/modules/$(uname -r)/modules.builtin",
    "modaliases": "find /sys/devices -name modalias -exec cat {} + | sort -u",
    "phys": "cat /sys/bus/mdio_bus/devices/*/phy_id",
    "mounts": "cat $root/proc/self/mounts",
    # The devices from the root file system's up to its bus controller, also below LVM and encryption.
    "root": (
        f"{_UP}; n=$(mountpoint -d /); for p in /sys/dev/block/$n /sys/dev/block/$n/slaves/*; do up $p; done;"
        # An NFS root: the NICs of the route to its server, also below a bridge or VLAN. Without a known server, all.
        f" {NFS_ROOT}; for d in $nics; do nics $d; done"
    ),
}


@dataclass(frozen=True)
class BootNeeds:
    """What a board uses with its known-good kernel.

    ``loaded`` and ``built_in`` are the names of modules. The others are aliases: of all devices and mounted file
    systems, of PHYs, and of the root file system with its device or, for NFS, its NIC.
    """

    loaded: frozenset[str] = frozenset()
    built_in: frozenset[str] = frozenset()
    aliases: frozenset[str] = frozenset()
    phys: frozenset[str] = frozenset()
    root: frozenset[str] = frozenset()

    def early(self, modules: Mapping[str, ModuleId]) -> list[str]:
        """Return the modules of a build that its initramfs must have, with their dependencies."""
        wanted = matching_modules(modules, self.root | self.phys)
        return sorted(module.name for module in with_dependencies(modules, wanted))

    def before_root(self, modules: Mapping[str, ModuleId]) -> list[str]:
        """Return the modules of a build that must be built in if the board boots without an initramfs."""
        return sorted(matching_modules(modules, self.root) & self.built_in)


def read_boot_needs(shell: Shell, root: str = "") -> BootNeeds:
    """Read what the board uses, while its known-good build runs. Raises SshError.

    ``root`` is put before the paths of mounts, command line and NICs.
    """
    script = f"root={shlex.quote(root)}; {marked(_PARTS)}"
    return parse_boot_needs(shell.run(script, timeout_s=TIMEOUT_S).stdout)


def parse_boot_needs(output: str) -> BootNeeds:
    """Parse the output of the script that reads what a board uses."""
    parts = {name: text.split("\n") for name, text in split_marked(output).items()}
    mounts = [words for line in parts.get("mounts", ()) if len(words := line.split()) > 2]
    kinds = {words[1]: words[2] for words in mounts}
    ids = [int(line, 16) for line in parts.get("phys", ()) if re.fullmatch(r"0x[0-9a-f]{1,8}", line)]
    root = {line for line in parts.get("root", ()) if line}
    root |= {f"fs-{kinds['/']}"} if "/" in kinds else set()
    # The kernel loads the module of an NFS version by its name (fs/nfs/client.c).
    versions = [re.search(r"\bvers=([34])", words[3]) for words in mounts if words[1] == "/" and words[3:]]
    root |= {f"nfsv{found[1]}" for found in versions if found}
    return BootNeeds(
        frozenset(filter(None, parts.get("loaded", ()))),
        frozenset(name_of(line) for line in parts.get("built_in", ()) if line),
        frozenset({*filter(None, parts.get("modaliases", ())), *(f"fs-{kind}" for kind in kinds.values())}),
        # MDIO_ID_FMT of include/linux/mod_devicetable.h: one digit for each bit.
        frozenset(f"mdio:{number:032b}" for number in ids if number),
        frozenset(root),
    )
