"""The files of a build on the board's root file system: the modules of its kernel release, and driver firmware.

The known-good kernel may have built in what is a module of the build. So the hardware, the mounts and the list of what
is built in are read, and not only the loaded modules.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pytest_pinet.builds.cache import sha256_of
from pytest_pinet.builds.kernel_files import name_of
from pytest_pinet.builds.tree import (
    BuildSnapshot,
    matching_modules,
    of_tree,
    required_modules,
    size_of,
    with_dependencies,
)
from pytest_pinet.evidence.build import marked, split_marked
from pytest_pinet.evidence.sockets import NFS_ROOT
from pytest_pinet.execution.shell import Shell
from pytest_pinet.lab.deploy.board import Content, DeployableBoard, DiskSpace, Refused, free_bytes, run_as_root, upload
from pytest_pinet.lab.deploy.card import OURS, mount_below
from pytest_pinet.lab.deploy.known_good import firmware_folder
from pytest_pinet.lab.deploy.trial import PATH as GUARD
from pytest_pinet.model.build import Build, BuildFileRole, ModuleId

NEEDS_TIMEOUT_S = 60.0
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
    return parse_boot_needs(shell.run(script, timeout_s=NEEDS_TIMEOUT_S).stdout)


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


# A tree up to this size is sent whole. The packed tree of a Raspberry Pi kernel has 25 MB, of Debian 80 to 300 MB.
WHOLE_TREE_BYTES = 40_000_000
TOOL_TIMEOUT_S = 600.0
# File systems that lose or refuse what is written: overlay is used by raspi-config, the others by an initramfs or by
# images without a writable root.
_NOT_KEPT = ("overlay", "overlayfs", "tmpfs", "ramfs", "rootfs", "squashfs", "erofs", "iso9660")
_TOOLS = "PATH=$PATH:/usr/sbin:/sbin"
# mkinitramfs of Debian 12 has all files in this folder, with their modules unpacked, and an archive of them beside it.
MAKING = "/var/tmp"
# In sizes of the known-good initramfs. Measured on 2026-11-28 with Debian 12 (initramfs-tools 0.142, Linux 6.1.192,
# MODULES=most, zstd): 230.7 MB for a file of 30.0 MB, 7.7 times its size. The new one may be 1.5 times as large.
MAKING_GROWTH = 12
# mkinitramfs of Debian 12 (0.142) fails without the configuration of the kernel. Newer ones pack as on the board, such
# as by zstd, although the kernel perhaps unpacks only gzip, which is on by default.
_CONFIG_MARK = "# By pytest-pinet for mkinitramfs"
_CONFIG = f"{_CONFIG_MARK}\nCONFIG_RD_GZIP=y"


def parked(key: str) -> str:
    """Return the folder for the modules of a build while another build of its release is in use."""
    return f"/lib/modules/.{OURS}-{key}"


def config_undo(release: str) -> str:
    """Return a script that removes the configuration that pinet wrote for mkinitramfs."""
    path = shlex.quote(f"/boot/config-{release}")
    return f"if grep -qsF {shlex.quote(_CONFIG_MARK)} {path}; then rm -f {path}; fi"


class RootFiles:
    """The files of builds, in their own folders beside the files of the known-good build.

    If several builds have the same release, the build that is booted next gets the release's folder.
    """

    def __init__(self, board: DeployableBoard) -> None:
        self._board = board
        # By mount. ``_owners`` are the keys of the builds that have put their modules onto the board.
        self._spaces: dict[str, DiskSpace] = {}
        self._owners: set[str] = set()

    def check(self, build: Build, replaced: int | None, initramfs: bool) -> None:
        """Check whether the board can take the files. Raises Refused, SshError.

        ``replaced`` is the size in bytes of the known-good initramfs if the board makes another one, else None;
        ``initramfs``: the build boots with one.
        """
        shell, name = self._board.shell, self._board.name
        tools = ["depmod"] * bool(build.of(BuildFileRole.MODULES)) + ["mkinitramfs"] * (replaced is not None)
        missing = [tool for tool in tools if shell.run(f"{_TOOLS}; command -v {tool}").returncode]
        if "mkinitramfs" in missing:
            raise Refused(
                f"{name} boots with an initramfs, but has no mkinitramfs: "
                f"install initramfs-tools there, or add an initramfs to {build}"
            )
        if missing:
            raise Refused(f"{name} has no {missing[0]}, which {build} needs for its modules")
        without = replaced is not None and build.release and not build.of(BuildFileRole.MODULES)
        if without and shell.run(f"[ -d /lib/modules/{build.release} ]").returncode:
            raise Refused(
                f"{name} boots with an initramfs, but neither {build} nor {name} has modules of kernel {build.release} "
                f"to make one: add the modules or an initramfs to {build}"
            )
        self._check_root(build)
        if not initramfs and (needed := self._before_root(build)):
            raise Refused(
                f"{name} boots without an initramfs, but {build} has {' and '.join(needed)} as modules, which are "
                f"needed to mount the root file system: build them into the kernel, or add an initramfs to {build}"
            )
        if build.of(BuildFileRole.MODULES) and self._is_known_good(build) and not self._is_same(build):
            raise Refused(
                f"{name} has different modules of kernel {build.release}, which belong to its known-good build: "
                "build this kernel with another release (CONFIG_LOCALVERSION)"
            )
        self._check_space(build, (replaced or 0) * MAKING_GROWTH)

    def _check_space(self, build: Build, temporary: int) -> None:
        """Check whether modules, driver firmware and a temporary initramfs have room. Raises Refused, SshError."""
        modules = sum(map(size_of, self._files(build).values()))
        firmware = sum(file.size for file in build.of(BuildFileRole.FIRMWARE))
        left: dict[str, int | None] = {}
        sizes: dict[str, dict[str, int]] = {}
        parts_of = (
            ("modules", modules, "/lib/modules"),
            ("driver firmware", firmware, "/var/lib"),
            ("temporary initramfs", temporary, MAKING),
        )
        for what, size, folder in parts_of:
            if size:
                df = self._board.shell.run(f"{{ df -kP {folder} || df -kP /; }} 2>/dev/null | tail -n 1").stdout
                mount = " ".join(df.split()[5:])
                left[mount] = free_bytes(df)
                sizes.setdefault(mount, {})[what] = size
        for mount, parts in sizes.items():
            act = "delete files that are not needed there"
            act += ", or strip the modules (INSTALL_MOD_STRIP=1)" if "modules" in parts else ""
            verb = "take" if len(parts) > 1 or "modules" in parts else "takes"
            words = f"the {' and '.join(parts)} of {build} {verb}"
            space = self._spaces.setdefault(mount, DiskSpace())
            where = f"{MAKING} of {self._board.name}" if list(parts) == ["temporary initramfs"] else self._board.name
            passing = parts.get("temporary initramfs", 0)
            needed = sum(parts.values()) - passing
            space.check(build, needed, left[mount], words, where, act, temporary=passing)

    def _before_root(self, build: Build) -> list[str]:
        """Return the modules of the build without which its kernel cannot mount the root file system."""
        return read_boot_needs(self._board.shell).before_root(build.modules) if build.of(BuildFileRole.MODULES) else []

    def _check_root(self, build: Build) -> None:
        """Check whether the file systems of all folders that get files keep them. Raises Refused."""
        roles = {BuildFileRole.MODULES: "/lib/modules", BuildFileRole.FIRMWARE: "/var/lib"}
        act = "test a build without modules and driver firmware"
        needs = [(folder, f"{build} cannot be installed", act) for role, folder in roles.items() if build.of(role)]
        if not self._board.has_power:
            needs.append((str(Path(GUARD).parent), "the guard of trial boots cannot be installed", "add power control"))
        for folder, lacks, act in needs:
            # A folder that does not exist yet is made in its parent.
            done = self._board.shell.run(f"readlink -f {folder} || echo {folder}; cat /proc/self/mounts")
            path, _, mounts = done.stdout.partition("\n")
            _, kind, options = mount_below(mounts, path)
            if kind in _NOT_KEPT or "ro" in options:
                why = f"is {kind}, which does not keep files" if kind in _NOT_KEPT else "is mounted read-only"
                raise Refused(
                    f"the root file system of {self._board.name} ({folder}) {why}, so {lacks}: "
                    f"make it a writable file system on a disk, or {act}"
                )

    def _is_known_good(self, build: Build) -> bool:
        """Return whether the known-good build has this release."""
        folder = f"/lib/modules/{build.release}"
        return self._board.shell.run(f"[ ! -d {folder} ] || [ -e {folder}/.{OURS} ]").returncode != 0

    def _is_same(self, build: Build) -> bool:
        """Return whether the board's modules of this release equal the build's. If so, it is the known-good build."""
        done = self._board.shell.run(
            f"cd /lib/modules/{build.release} && find . -name '*.ko*' -type f | sort | xargs -r sha256sum",
            timeout_s=TOOL_TIMEOUT_S,
        )
        pairs = (line.split(None, 1) for line in done.stdout.splitlines() if " " in line)
        there = {name: digest for digest, name in pairs}
        (tree,) = build.of(BuildFileRole.MODULES)
        return bool(there) and all(
            (Path(tree.path) / name).is_file() and sha256_of(Path(tree.path) / name) == digest
            for name, digest in there.items()
        )

    def _file_contents(self, build: Build) -> dict[str, Content]:
        """Return the contents by path below /lib/modules/RELEASE. Raises ChangedBuildError."""
        known = {file.path: file for tree in build.of(BuildFileRole.MODULES) for file in of_tree(tree).values()}
        known |= {Path(file.path): BuildSnapshot.of(file) for file in build.of(BuildFileRole.MODULE)}
        return {name: known[path] for name, path in self._files(build).items()}

    def _files(self, build: Build) -> dict[str, Path]:
        """Return the files by path below /lib/modules/RELEASE."""
        found: dict[str, Path] = {}
        for tree in build.of(BuildFileRole.MODULES):
            own = {name: module for name, module in build.modules.items() if (Path(tree.path) / module.path).is_file()}
            chosen = list(own.values()) if tree.size <= WHOLE_TREE_BYTES else self._chosen(build, own)
            found |= {module.path: Path(tree.path) / module.path for module in chosen}
            for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
                path = Path(tree.path) / name
                if path.is_file() and not path.is_symlink():
                    found[name] = path
        if build.of(BuildFileRole.MODULES):
            found |= {f"updates/{file.name}": Path(file.path) for file in build.of(BuildFileRole.MODULE)}
        return found

    def _chosen(self, build: Build, own: dict[str, ModuleId]) -> list[ModuleId]:
        needs = read_boot_needs(self._board.shell)
        named = [name_of(file.name) for file in build.of(BuildFileRole.MODULE)]
        named += [module for module, _, _ in build.options]
        return required_modules(own, [*needs.loaded, *needs.built_in, *named], needs.aliases | needs.phys | needs.root)

    def deploy(self, build: Build) -> None:
        """Put the files onto the board. Raises ChangedBuildError, LabError, SshError."""
        shell = self._board.shell
        if build.of(BuildFileRole.MODULES) and not self._is_known_good(build):
            self._owners.add(build.key)
            self.claim(build)
            upload(shell, f"/lib/modules/{build.release}", self._file_contents(build))
            self._run(f"{_TOOLS}; depmod {shlex.quote(build.release or '')}", "run depmod")
        if build.of(BuildFileRole.FIRMWARE):
            firmware = {file.name: BuildSnapshot.of(file) for file in build.of(BuildFileRole.FIRMWARE)}
            upload(shell, firmware_folder(build), firmware)
        for space in self._spaces.values():
            space.deployed.add(build.key)

    def claim(self, build: Build) -> None:
        """Make the folder of its release contain this build's modules for the next boot. Raises LabError, SshError."""
        if build.key not in self._owners:
            return
        folder, own = f"/lib/modules/{build.release}", parked(build.key)
        # The folder gets its mark before it gets its name. A recovery can thus recognise even an incomplete folder.
        self._run(
            f'has=$(cat {folder}/.{OURS} 2>/dev/null); [ "$has" = {build.key} ] || {{'
            f' if [ -n "$has" ]; then mv {folder} {parked("$has")}; fi &&'
            f" mkdir -p {own} && echo {build.key} > {own}/.{OURS} && mv {own} {folder} && sync; }}",
            "make a folder for modules",
        )

    def forget(self) -> None:
        """Forget the files after all builds were removed."""
        self._spaces.clear()
        self._owners.clear()

    def make_initramfs(self, build: Build, path: str) -> None:
        """Make an initramfs with the board's own tool. Raises LabError, SshError.

        The tool chooses modules for the running kernel. So it gets a list of what the new kernel needs, in a copy of
        its configuration.
        """
        needed = read_boot_needs(self._board.shell).early(build.modules)
        # Not in /run, which is often mounted noexec: the folder has hooks.
        conf = f"{PurePosixPath(firmware_folder(build)).parent}/initramfs-tools"
        config = shlex.quote(f"/boot/config-{build.release}")
        self._run(
            f"{_TOOLS}; rm -rf {conf} && mkdir -p {conf} &&"
            f" {{ [ ! -d /etc/initramfs-tools ] || cp -a /etc/initramfs-tools/. {conf}; }} &&"
            f" printf '\\n%s\\n' {shlex.quote(chr(10).join(needed))} >> {conf}/modules &&"
            f" {{ grep -qs . {config} || echo {shlex.quote(_CONFIG)} > {config}; }} &&"
            f" TMPDIR={MAKING} mkinitramfs -o {path} -d {conf} {shlex.quote(build.release or '')}; made=$?;"
            f" {config_undo(build.release or '')}; [ $made = 0 ] && rm -rf {conf} && sync",
            "make an initramfs",
        )

    def _run(self, command: str, what: str) -> None:
        run_as_root(self._board.shell, command, what, TOOL_TIMEOUT_S)
