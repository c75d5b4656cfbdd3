"""Checks that a build fits the processor of a board, and that the board runs the build, with its device tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pytest_pinet.builds.kernel_files import name_of
from pytest_pinet.errors import BuildError
from pytest_pinet.evidence.fdt import DeviceTree, NotDeviceTree, read_device_tree, shown
from pytest_pinet.model.build import Build, BuildFileRole, RunningBuild

# From a machine's own name (uname -m) to the architecture's name in the kernel source. Only an arm64 kernel answers
# armv8l: to programs with the personality of a 32-bit machine (arch/arm64/include/asm/compat.h).
_MACHINES = {"aarch64": "arm64", "armv8l": "arm64", "armv7l": "arm", "armv6l": "arm"}
WRONG_ARCHITECTURE = "wrong architecture"
_YES = {"Y": "1", "y": "1", "N": "0", "n": "0"}


def require_any_pi(build: Build) -> None:
    """Check a build before any board is used. Raises BuildError if no Raspberry Pi can run it."""
    if build.arch is not None and build.arch not in _MACHINES.values():
        raise BuildError(
            f"{build} is for {build.arch}, but a Raspberry Pi has an arm64 or arm processor: "
            "set ARCH=arm64 when you compile the kernel",
            WRONG_ARCHITECTURE,
        )


def require_machine(build: Build, name: str, machine: str) -> None:
    """Check a build that needs no boot for board ``name``, whose ``uname -m`` is ``machine``.

    Raises BuildError for another architecture.
    """
    require_any_pi(build)
    if build.arch is not None and _MACHINES.get(machine, build.arch) != build.arch:
        raise BuildError(
            f"{build} is for {build.arch}, but {name} runs {_MACHINES[machine]} ({machine})", WRONG_ARCHITECTURE
        )


def require_processor(build: Build, name: str, architectures: tuple[str, ...], bits: int | None) -> None:
    """Check a build that is booted for board ``name``, which can start kernels of these architectures.

    ``bits`` are the bits of the board's programs (None: unknown). Raises BuildError if the board cannot run the build.
    """
    require_any_pi(build)
    if build.arch is not None and build.arch not in architectures:
        why = f"the processor of {name} starts only {architectures[0]} kernels: set ARCH={architectures[0]}"
    elif build.arch == "arm" and bits == 64:
        why = f"the programs of {name} are 64-bit, which a 32-bit kernel cannot run: set ARCH=arm64"
    else:
        return
    raise BuildError(f"{build} is for {build.arch}, but {why} when you compile the kernel", WRONG_ARCHITECTURE)


def runs_on(build: Build, architectures: tuple[str, ...], bits: int | None) -> bool:
    """Return whether `require_processor` accepts the build."""
    return build.arch in architectures and not (build.arch == "arm" and bits == 64)


def mismatches(build: Build, running: RunningBuild, booted: bool, before: RunningBuild | None = None) -> list[str]:
    """Return the differences from the build, a few words each; empty if all reported values agree.

    ``booted``: the board was booted with the build. ``before`` has the values of the known-good build: a requested
    setting that the kernel changed to a third value is no difference (see ``changed_values``).
    """
    found = _boot(build, running) if booted or running.marker else []
    if found:
        return found
    found = _kernel(build, running)
    for name, module in sorted(build.modules.items()):
        loaded = running.modules.get(name)
        if loaded is None:
            continue
        for kind, wanted, now in (
            ("srcversion", module.srcversion, loaded.srcversion),
            ("build ID", module.build_id, loaded.build_id),
        ):
            if wanted and now and wanted != now:
                found.append(f"module {name} has {kind} {now}, expected {wanted}")
    found += [f"module {name} is not loaded" for name in missing_modules(build, running)]
    for setting, wanted, now, old in _settings(build, running, before):
        if now is None:
            found.append(f"the kernel has no {setting}")
        elif old in (None, now):
            kept = f"{setting} is still '{now}', as before" if old == now else f"{setting} is '{now}'"
            found.append(f"{kept}, expected '{wanted}'")
    return found


def changed_values(build: Build, running: RunningBuild, before: RunningBuild | None) -> tuple[str, ...]:
    """Return a sentence for each requested setting whose value the kernel or the driver changed, such as clamped."""
    return tuple(
        f"{setting}: requested '{wanted}', the kernel has '{now}'"
        for setting, wanted, now, old in _settings(build, running, before)
        if now is not None and old not in (None, now)
    )


def _settings(
    build: Build, running: RunningBuild, before: RunningBuild | None
) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Yield each option and sysctl that differs from the request: name, requested value, value now and before."""
    old = before if before is not None else running
    for module, parameter, wanted in build.options:
        key = f"{module}.{parameter}"
        now = running.parameters.get(key)
        # Most drivers hide their parameters.
        if now is not None and _values(wanted) != _values(now):
            yield f"option {key}", wanted, now.strip(), _one_line(old.parameters.get(key)) if before else None
    for name, wanted in build.sysctls:
        now = _one_line(running.sysctls.get(name))
        if now is None or not sysctl_holds(wanted, now):
            yield f"sysctl {name}", wanted, now, _one_line(old.sysctls.get(name)) if before else None


def _one_line(value: str | None) -> str | None:
    return None if value is None else " ".join(value.split())


def not_proved(build: Build, running: RunningBuild) -> tuple[str, ...]:
    """Return a sentence for each part of a running build that the board does not report, except device trees."""
    found: list[str] = []
    kernel = build.kernel
    if kernel is not None and not kernel.version:
        found.append("kernel: pinet cannot unpack the image (lz4 or lzo), so only the release was compared")
    elif kernel is not None and not (kernel.build_ids and running.build_id):
        found.append("kernel: it has no build ID, so only its release and its version line were compared")
    unknown = sorted(
        name
        for name, module in build.modules.items()
        if (loaded := running.modules.get(name)) is not None
        and not (module.srcversion and loaded.srcversion)
        and not (module.build_id and loaded.build_id)
    )
    found += _listed("module", unknown, "no srcversion and no build ID can be compared")
    found += _listed(
        "initramfs",
        [file.name for file in build.of(BuildFileRole.INITRAMFS)],
        "the board does not say which file it loaded",
    )
    found += _listed(
        "overlay",
        [file.name for file in build.of(BuildFileRole.OVERLAY)],
        "the board does not say which file it merged",
    )
    found += _listed(
        "driver firmware",
        [file.name for file in build.of(BuildFileRole.FIRMWARE)],
        "a driver reports at most a version (ethtool -i)",
    )
    found += _listed(
        "config.txt", [f"'{line}'" for line in build.config], "the firmware does not say which lines it used"
    )
    hidden = [f"{m}.{p}={value}" for m, p, value in build.options if f"{m}.{p}" not in running.parameters]
    return (*found, *_listed("option", hidden, "the driver does not show its value"))


def _listed(kind: str, names: Sequence[str], why: str) -> list[str]:
    """Return one sentence about all parts of a kind, or none."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return [f"{kind} {', '.join(names[:3])}{more}: {why}"] if names else []


def sysctl_holds(wanted: str, now: str) -> bool:
    """Return whether a sysctl has the requested value. The kernel separates several numbers with tabs."""
    return [*map(_plain, now.split())] == [*map(_plain, wanted.split())]


def _values(option: str) -> list[str]:
    return [_plain(_YES.get(one, one)) for one in option.strip().split(",")]


def _plain(word: str) -> str:
    """Return a number as most drivers and the kernel print it. They also read 0x10 and 010."""
    try:
        return str(int(word, 8 if re.fullmatch("-?0[0-7]+", word) else 0))
    except ValueError:
        return word


def missing_modules(build: Build, running: RunningBuild) -> list[str]:
    """Return a build's single modules that are not loaded: they have no device there, or did not probe."""
    return sorted({name_of(file.name) for file in build.of(BuildFileRole.MODULE)} - set(running.modules))


def _boot(build: Build, running: RunningBuild) -> list[str]:
    """Return the differences if the board did not boot with the boot files of this build."""
    if running.marker is None:
        return [f"the kernel command line has no {build.key}: {running.node} booted its known-good build"]
    if running.marker != build.key:
        return [f"{running.node} booted build {running.marker}, expected {build.key}"]
    words = running.cmdline.split()
    return [f"'{word}' is missing on the kernel command line" for word in build.cmdline if word not in words]


def _kernel(build: Build, running: RunningBuild) -> list[str]:
    kernel = build.kernel
    if kernel is None or not kernel.release:
        return []
    if kernel.version and kernel.version.split() != running.version.split():
        return [f"the board runs '{running.version}', but the image contains '{kernel.version}'"]
    if kernel.build_ids and running.build_id and running.build_id not in kernel.build_ids:
        return [f"the build ID of the running kernel is {running.build_id}, which the image does not contain"]
    # The modules of the build have the release of its image.
    if running.release and running.release != kernel.release:
        return [f"uname -r of the board is {running.release}, but the image is kernel {kernel.release}"]
    return []


# Nodes that the firmware fills in, or that only describe overlays and parameters.
_OF_FIRMWARE = (
    "/chosen", "/aliases", "/memory", "/reserved-memory", "/system", "/hat", "/__overrides__", "/__symbols__",
    "/__fixups__", "/__local_fixups__",
)  # fmt: skip
# Properties of the board itself, wherever they stand.
_OF_BOARD = ("local-mac-address", "mac-address", "local-bd-address", "phandle", "linux,phandle")
_OF_ROOT = ("model", "serial-number", "memreserve")


@dataclass(frozen=True)
class TreeProof:
    """What a running device tree proves: the first ``difference`` from the file (empty: none), as a sentence.

    ``not_compared`` are sentences about what was not compared.
    """

    difference: str = ""
    not_compared: tuple[str, ...] = ()


@dataclass(frozen=True)
class FirmwareEdits:
    """What the firmware changed in the boot of the known-good build; ``unknown`` is the reason if that is not known.

    ``nodes`` are the paths of the changed nodes, ``root`` are the changed properties of the root node. ``running`` is
    the tree of that boot.
    """

    nodes: frozenset[str] = frozenset()
    root: frozenset[str] = frozenset()
    running: DeviceTree = field(default_factory=dict)
    unknown: str = ""

    @classmethod
    def learn(cls, file: bytes | None, running: bytes | None) -> FirmwareEdits:
        """Learn from the known-good file, and from the tree of its boot. None: the board has no such file."""
        if not running:
            return cls(unknown="the kernel has no /sys/firmware/fdt")
        try:
            there = read_device_tree(running)
        except NotDeviceTree as why:
            return cls(unknown=f"/sys/firmware/fdt cannot be read: {why}")
        if file is None:
            return cls(unknown="the device tree of the known-good build is not known")
        try:
            found = list(_differences(read_device_tree(file), there))
        except NotDeviceTree as why:
            return cls(unknown=f"the device tree of the known-good build cannot be read: {why}")
        nodes = frozenset(path for path, _, _ in found if path != "/")
        return cls(nodes, frozenset(name for path, name, _ in found if path == "/"), there)


def compare_device_trees(name: str, file: bytes, running: bytes | None, edits: FirmwareEdits) -> TreeProof:
    """Compare a build's device tree ``name`` with the running one. Nodes that the firmware edits are not compared."""
    if edits.unknown or not running:
        return TreeProof(
            not_compared=(f"device tree {name}: {edits.unknown or 'the kernel has no /sys/firmware/fdt'}",)
        )
    try:
        wanted, there = read_device_tree(file), read_device_tree(running)
    except NotDeviceTree as why:
        return TreeProof(not_compared=(f"device tree {name}: it cannot be compared with /sys/firmware/fdt: {why}",))
    found: list[str] = []
    for path, key, text in _differences(wanted, there):
        edited = path in edits.nodes or (path == "/" and key in edits.root)
        # An overlay may switch a device on or off that the known-good tree has in the same state.
        switched = key == "status" and there[path].get(key) == edits.running.get(path, {}).get(key)
        if not edited and not switched:
            found.append(text)
    left_out = [path for path in wanted if path in edits.nodes]
    count = f"{len(left_out)} node{'s' if len(left_out) > 1 else ''}"
    skipped = f"device tree {name}: {count} that the firmware or an overlay changes, such as "
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return TreeProof(
        f"device tree {name}: {found[0]}{more}" if found else "", (f"{skipped}{left_out[0]}",) if left_out else ()
    )


def _differences(wanted: DeviceTree, there: DeviceTree) -> Iterator[tuple[str, str, str]]:
    """Yield path, property and a text for each part of ``wanted`` that the other tree does not have.

    A missing node is one difference, of the property "". Nodes and properties of the firmware are left out.
    """
    missing = ""
    for path, properties in wanted.items():
        if path.startswith(_OF_FIRMWARE) or (missing and path.startswith(f"{missing}/")):
            continue
        if path not in there:
            missing = path
            yield path, "", f"the running tree has no node {path}"
            continue
        for name, value in properties.items():
            if name in _OF_BOARD or (path == "/" and name in _OF_ROOT):
                continue
            now = there[path].get(name)
            if now != value:
                has = "is missing" if now is None else f"is {shown(now)}"
                yield path, name, f"{name} of {path} {has}, expected {shown(value)}"
