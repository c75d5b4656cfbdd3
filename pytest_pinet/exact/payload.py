"""What a board boots: the kernel of a build, and an initramfs with the modules for the NIC and the traffic program."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path

from pytest_pinet.builds.archives import Unreadable, unpacked
from pytest_pinet.builds.kernel_files import loaded_part, page_kib
from pytest_pinet.builds.tree import built_in_modules, module_files
from pytest_pinet.emulated.packages import arm64_image
from pytest_pinet.emulated.rootfs import Archive
from pytest_pinet.errors import CapabilityError, ConfigError, LabError, UnfitBuildError
from pytest_pinet.exact.board import BCM2711_BRIDGE, CMDLINE, MACS, ExactBoard
from pytest_pinet.exact.kernel_config import RPS, SLOT, require_config
from pytest_pinet.exact.traffic import AMOUNTS, PKTGEN, SENDER, Amount, Event, events_of
from pytest_pinet.execution.files import is_file
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole, ModuleId
from pytest_pinet.model.exact import USUAL_PAGES_KIB, VLAN
from pytest_pinet.tuning.nic_settings import kernel_feature
from pytest_pinet.tuning.values import mask_of, write_mask

# A boot takes 5 to 40 virtual seconds after the start of the traffic program.
LIMIT_S = 300
VLAN_MODULE = "8021q"
# Modules that traffic uses if both builds have them.
OPTIONAL = (PKTGEN, VLAN_MODULE)
# What a meaningless change adds, times its number: letters to the command line, octets that nothing reads to each
# module, and a file of so many octets to the initramfs. Odd numbers of octets reach other places in a page each time.
_LETTERS, _PADDING, _FILLING = 23, 5_003, 300_007
# The modules that send frames.
_SENDERS = (PKTGEN, "af_packet")
# A message names at most so many modules of a build.
_NAMED = 3
_FILE, _PROGRAM = stat.S_IFREG | 0o644, stat.S_IFREG | 0o755


@dataclass(frozen=True)
class KernelImage:
    """A kernel image as QEMU loads it. All boards of a gate share it, since it may have 40 MB."""

    data: bytes

    @cached_property
    def sha256(self) -> str:
        """The hash of the data."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class Payload:
    """What ``board`` boots for ``build``: a kernel image, an initramfs, a command line, and their hashes.

    The kernel has pages of ``pages_kib``, and the board a processor that has such pages.
    ``words`` are the command line without a meaningless change. ``files`` are the modules by name in the order in which
    they are loaded, and ``options`` the parameters of some of them. ``is_signed``: the kernel takes only modules with
    their signature, so nothing is added to them. ``script`` is what the traffic program does when the modules are
    loaded, within ``limit_s`` of virtual time. ``sender`` is ``pktgen`` or ``sender``. ``events`` are what the host
    does while the guest runs, in this order. ``variation`` is the number of the meaningless change; 0 is none.
    """

    board: ExactBoard
    build: str
    release: str
    image: KernelImage
    pages_kib: int
    words: str
    files: Mapping[str, bytes]
    options: Mapping[str, Sequence[str]]
    is_signed: bool
    script: tuple[str, ...]
    sender: str
    events: tuple[Event, ...]
    limit_s: int = LIMIT_S
    variation: int = 0

    def vary(self, number: int) -> Payload:
        """Return the same with the meaningless change of this number.

        It changes what surrounds the build, not the build. It moves memory and timers as another binary does.
        """
        return replace(self, variation=number)

    @property
    def cmdline(self) -> str:
        """The command line of the kernel."""
        return f"{self.words} pinet.variation={'x' * (self.variation * _LETTERS)}" if self.variation else self.words

    @property
    def modules(self) -> Mapping[str, str]:
        """The hashes of the modules by name, without a meaningless change."""
        return {name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()}

    @property
    def traffic(self) -> str:
        """The hash of the traffic program."""
        return hashlib.sha256(traffic_program()).hexdigest()[:16]

    @cached_property
    def initramfs(self) -> bytes:
        """The archive with the modules, the traffic program and its script."""
        script, archive = [f"limit {self.limit_s}"], Archive()
        for folder in ("proc", "sys", "dev"):
            archive.add(folder, stat.S_IFDIR | 0o755)
        archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
        archive.add("dev/random", stat.S_IFCHR | 0o600, device=(1, 8))
        archive.add("init", _PROGRAM, traffic_program())
        for name, data in self._varied_files():
            archive.add(f"modules/{name}.ko", _FILE, data)
            script.append(" ".join(["module", f"/modules/{name}.ko", *self.options.get(name, ())]))
        archive.add("script", _FILE, "".join(f"{line}\n" for line in (*script, *self.script, "symbols")).encode())
        if self.variation:
            archive.add("filling", _FILE, bytes(self.variation * _FILLING))
        return archive.packed()

    def _varied_files(self) -> Iterator[tuple[str, bytes]]:
        """Return the modules as they are loaded, in this order."""
        # No module depends on the sender of frames, so its place is free.
        for name in sorted(self.files, key=lambda name: bool(self.variation % 2 and name in _SENDERS)):
            data = self.files[name]
            padding = 0 if self.is_signed else self.variation * _PADDING
            yield name, loaded_part(data, padding) if padding else data


def traffic_program() -> bytes:
    """Return the program that runs in the guest: a static binary for arm64."""
    return resources.files("pytest_pinet.exact").joinpath("guest", "traffic").read_bytes()


def make_payload(
    board: ExactBoard,
    base: Build,
    build: Build | None,
    limit_s: int = LIMIT_S,
    amounts: Sequence[Amount] = AMOUNTS,
    optional: Collection[str] = OPTIONAL,
) -> Payload:
    """Return what the board boots with ``build``, or with ``base`` if it is None.

    All traffic must end within ``limit_s`` of virtual time. Traffic uses the modules in ``optional`` if the build has
    them: without pktgen, our own sender sends frames; without 8021q, VLANs are left out. A build without a kernel
    consists of modules, which replace modules of ``base``. Raises ConfigError for a build that no exact board can run,
    UnfitBuildError for a build that does not concern this board, CapabilityError for a kernel that lacks what an exact
    board needs.
    """
    build = build or base
    kernel_of = build if build.kernel is not None else base
    _check_processor(kernel_of, build)
    paths = {**module_files(kernel_of), **(module_files(build) if build is not kernel_of else {})}
    if build is not kernel_of:
        _check_fit(build, kernel_of, paths)
    image = _image(*kernel_of.of(BuildFileRole.KERNEL))
    pages_kib = _pages_kib(kernel_of, image)
    board = replace(board, machine=board.machine.for_pages(pages_kib))
    settings = [*_steering(board, build), *_sysctls(build), *_features(board, build)]
    names = module_names(base, build)
    _check_driver(board, kernel_of, build, names, image.data)
    needs = {**(SLOT if board.machine.slot else {}), **(RPS if build.rps else {})}
    config = require_config(kernel_of, image.data, needs)
    used = names.intersection(optional)
    amounts = [amount for amount in amounts if amount.traffic != VLAN or VLAN_MODULE in used]
    # The packet socket of our own sender is a module of Debian's kernels.
    of_traffic = [PKTGEN if PKTGEN in used else "af_packet"]
    of_traffic += [VLAN_MODULE] if any(amount.traffic == VLAN for amount in amounts) else []
    order = _load_order(board, build, {**kernel_of.modules, **build.modules}, of_traffic, names)
    _check_change(board, build, order)
    options = {module: [f"{name}={value}" for m, name, value in build.options if m == module] for module in order}
    words = [*build.cmdline, *(f"{m}.{name}={value}" for m, name, value in build.options if m not in order)]
    is_signed = _needs_signatures(config, words)
    sender = PKTGEN if PKTGEN in used else SENDER
    counter = ["counter"] if board.machine.processors == 1 else []
    traffic = [amount.command(sender) for amount in amounts for _ in range(amount.turns)]
    return Payload(
        board=board,
        build=str(build),
        release=kernel_of.release or "",
        image=image,
        pages_kib=pages_kib,
        words=" ".join([CMDLINE, *words]),
        files={name: _read(paths[name], is_signed) for name in order},
        options=options,
        is_signed=is_signed,
        script=(*counter, f"pair {' '.join(MACS)}", *settings, f"distance {board.nic.distance_us}", *traffic),
        sender=sender,
        events=tuple(event for amount in amounts for event in events_of(amount)),
        limit_s=limit_s,
    )


def _check_processor(*builds: Build) -> None:
    """Raise ConfigError if a build is for another processor."""
    for build in builds:
        if build.arch not in ("arm64", None):
            raise ConfigError(
                f"{build} is for {build.arch}, but exact boards are arm64; build it with ARCH=arm64 and "
                "CROSS_COMPILE=aarch64-linux-gnu-"
            )


def _check_fit(build: Build, kernel_of: Build, paths: Mapping[str, Path]) -> None:
    """Raise ConfigError if the modules of a build are not for the kernel of another build, which boots with them."""
    kernel = kernel_of.kernel
    for module in build.modules.values():
        if module.release != kernel_of.release:
            raise ConfigError(
                f"{paths[module.name]} is a module for kernel {module.release}, but kernel {kernel_of.release} boots; "
                "build it with the headers of this kernel, or name its own kernel with --against"
            )
        if kernel is not None and kernel.vermagic and module.vermagic != kernel.vermagic:
            raise ConfigError(
                f"{paths[module.name]} has vermagic '{module.vermagic}', but the kernel that boots loads only modules "
                f"with '{kernel.vermagic}'; build it with the headers of this kernel"
            )


def _check_driver(board: ExactBoard, kernel_of: Build, build: Build, names: Collection[str], image: bytes) -> None:
    """Raise UnfitBuildError if a build lacks the driver of the board. ``names`` are all modules that it has."""
    nic, driver = board.nic, board.nic.path[-1]
    # Without a tree of modules, the image shows whether the driver is built in: each driver has its name as a text.
    # It does not show the buses.
    has_tree = bool(kernel_of.of(BuildFileRole.MODULES))
    missing = [name for name in (*(nic.modules if has_tree else ()), driver) if name not in names]
    lists = [Path(tree.path) / "modules.builtin" for tree in kernel_of.of(BuildFileRole.MODULES)]
    if missing and has_tree and not any(map(is_file, lists)):
        raise ConfigError(
            f"{build} has neither a module {missing[-1]} nor the list of what is built in, {lists[0]}; copy the whole "
            "folder that 'make modules_install' creates"
        )
    if missing and (has_tree or f"{nic.driver}\0".encode() not in image):
        what = "a build" if has_tree else "a kernel without modules (Image,modules.tar.xz names both), and"
        raise UnfitBuildError(
            f"{build} has no driver {missing[-1]}", f"{what} without a driver of a board", missing[-1]
        )


def _check_change(board: ExactBoard, build: Build, order: Collection[str]) -> None:
    """Raise UnfitBuildError if the board loads no module of a build that consists of modules."""
    if build.kernel is None and build.modules and not build.modules.keys() & order:
        first, more = sorted(build.modules)[:_NAMED], len(build.modules) - _NAMED
        changed = f"{', '.join(first)}{f' and {more} more' if more > 0 else ''}"
        raise UnfitBuildError(
            f"{build} changes no module of this board", f"a build that changes only {changed}", board.nic.path[-1]
        )


def module_names(base: Build, build: Build | None) -> set[str]:
    """Return the modules that ``build``, or ``base`` if it is None, has: as files, or as parts of the kernel image."""
    build = build or base
    kernel_of = build if build.kernel is not None else base
    trees = [Path(file.path) for file in kernel_of.of(BuildFileRole.MODULES)]
    built_in = {name for tree in trees for name in built_in_modules(tree)}
    return {*kernel_of.modules, *build.modules, *built_in}


def _steering(board: ExactBoard, build: Build) -> list[str]:
    """Return the commands that set RPS and move interrupts, if the build does. Raises CapabilityError, ConfigError."""
    count, commands = board.machine.processors, []
    for key, value, command in (("irq", build.irq, "interrupts"), ("rps", build.rps, "rps")):
        if not value:
            continue
        what = f"{build} sets {key}: {value}, but the exact board {board.name}"
        if count == 1:
            raise CapabilityError(
                f"{what} has one processor, which does all work; name a lab file whose board has 'cores: 2' (--lab)"
            )
        if board.machine.slot:
            raise CapabilityError(f"{what} unplugs its NIC, which loses this setting; choose a board without a slot")
        if key == "irq" and BCM2711_BRIDGE in board.nic.modules:
            raise CapabilityError(
                f"{what} has the PCI Express bridge of a Raspberry Pi 4, whose driver cannot move interrupts; choose a "
                "board without this bridge"
            )
        if (mask := mask_of(value, range(count))) >> count:
            raise ConfigError(f"{what} has only the processors 0 to {count - 1}")
        commands.append(f"{command} {write_mask(mask) or '0'}")
    return commands


def _features(board: ExactBoard, build: Build) -> list[str]:
    """Return the commands that set features of the NIC. Raises CapabilityError."""
    if build.features and board.machine.slot:
        raise CapabilityError(
            f"{build} sets features, but the exact board {board.name} unplugs its NIC, which loses these settings; "
            "choose a board without a slot"
        )
    return [f"feature {kernel_feature(name)} {value}" for name, value in build.features]


def _sysctls(build: Build) -> list[str]:
    return [f"write /proc/sys/{name.replace('.', '/')} {value}" for name, value in build.sysctls]


def _pages_kib(build: Build, image: KernelImage) -> int:
    """Return the size of the pages of a kernel. Raises CapabilityError for a size that no exact board has."""
    if (pages := page_kib(image.data)) == 64:
        raise CapabilityError(
            f"{build} has pages of {pages} KiB, but exact boards have pages of 4 or 16 KiB: build it with "
            "CONFIG_ARM64_4K_PAGES or CONFIG_ARM64_16K_PAGES"
        )
    # Images of Linux before 4.6 do not say it.
    return pages or USUAL_PAGES_KIB


# One of each build: to unpack an image takes half a second, and there are many boards.
@lru_cache(maxsize=2)
def _image(file: BuildFile) -> KernelImage:
    """Return a kernel image. Raises ConfigError."""
    try:
        return KernelImage(arm64_image(Path(file.path).read_bytes(), file.path))
    except LabError as error:
        raise ConfigError(error.message) from None


def _read(path: Path, signed: bool) -> bytes:
    """Return a module as the board loads it. Raises ConfigError."""
    try:
        data = unpacked(path.read_bytes())
        return data if signed else loaded_part(data)
    except (Unreadable, OSError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def _needs_signatures(config: Mapping[str, str], words: Sequence[str]) -> bool:
    """Return whether the kernel refuses modules without the signature, which is behind the end of their files."""
    asked = ("module.sig_enforce", "lockdown=")
    return config.get("CONFIG_MODULE_SIG_FORCE") == "y" or any(word.startswith(asked) for word in words)


def _load_order(
    board: ExactBoard, build: Build, known: Mapping[str, ModuleId], traffic: Sequence[str], names: Collection[str]
) -> list[str]:
    """Return the modules that the board and the traffic need, each after the modules that it depends on.

    ``names`` are all modules that the build has. Raises ConfigError if it lacks one on which another depends.
    """
    order: list[str] = []

    def add(name: str, needed_by: Sequence[str]) -> None:
        module = known.get(name)
        if module is None or name in order or name in needed_by:
            return
        for other in module.depends:
            if other not in names:
                raise ConfigError(f"{name} needs {other}, which {build} lacks; add {other}.ko to the build")
            add(other, [*needed_by, name])
        order.append(name)

    for name in (*board.nic.modules, *traffic, *board.nic.path):
        add(name, ())
    return order
