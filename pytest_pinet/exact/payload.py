"""What a board boots: the kernel of a build, and an initramfs with the modules for the NIC and the traffic program."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pytest_pinet.builds.image import page_kib
from pytest_pinet.builds.loaded_part import loaded_part
from pytest_pinet.builds.module import read_module
from pytest_pinet.builds.packed import Unreadable, unpacked
from pytest_pinet.builds.tree import built_in_modules
from pytest_pinet.emulated.kernel_package import arm64_image
from pytest_pinet.emulated.rootfs import Archive
from pytest_pinet.errors import CapabilityError, ConfigError, LabError, UnfitBuildError
from pytest_pinet.exact.board import MACS, ExactBoard, cmdline
from pytest_pinet.exact.events import Event, events_of
from pytest_pinet.exact.kernel_config import RPS, SLOT, kernel_config, require_config
from pytest_pinet.exact.traffic import AMOUNTS, PKTGEN, SENDER, Amount
from pytest_pinet.model.build import Build, BuildFileRole, ModuleId
from pytest_pinet.model.exact import VLAN
from pytest_pinet.tuning.offloads import kernel_feature
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
class Payload:
    """What a board boots for ``build``: a kernel image, an initramfs, a command line, and their hashes.

    ``modules`` are the hashes of the modules by name, ``traffic`` is the hash of the traffic program, ``sender`` is
    ``pktgen`` or ``sender``. ``events`` are what the host does while the guest runs, in this order. ``vary`` returns
    the same with the meaningless change of this number: what surrounds the build, not the build. It moves memory and
    timers as another binary does.
    """

    build: str
    release: str
    image: bytes
    initramfs: bytes
    cmdline: str
    modules: Mapping[str, str]
    traffic: str
    sender: str
    events: tuple[Event, ...]
    vary: Callable[[int], Payload]

    @property
    def image_hash(self) -> str:
        return hashlib.sha256(self.image).hexdigest()


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
    for one in (kernel_of, build):
        if one.arch not in ("arm64", None):
            raise ConfigError(
                f"{one} is for {one.arch}, but exact boards are arm64; build it with ARCH=arm64 and "
                "CROSS_COMPILE=aarch64-linux-gnu-"
            )
    paths = {**_modules(kernel_of), **(_modules(build) if build is not kernel_of else {})}
    if build is not kernel_of:
        _check_fit(build, kernel_of, paths)
    image = _image(kernel_of)
    if (pages := page_kib(image)) not in (4, None):
        raise CapabilityError(
            f"{kernel_of} has pages of {pages} KiB, but exact boards need pages of 4 KiB: build it with "
            "CONFIG_ARM64_4K_PAGES (for a Raspberry Pi 5: bcm2711_defconfig instead of bcm2712_defconfig)"
        )
    steering = _steering(board, build)
    features = _features(board, build)
    require_config(kernel_of, image, {**(SLOT if board.machine.slot else {}), **(RPS if build.rps else {})})
    known = {**kernel_of.modules, **build.modules}
    names = module_names(base, build)
    nic, driver = board.nic, board.nic.path[-1]
    # The bus of a model has a driver, too.
    missing = [name for name in (*(nic.modules if nic.model else ()), driver) if name not in names]
    # Without a list of modules, the image shows whether the driver is built in: each driver has its name as a text.
    if missing and (known or f"{nic.driver}\0".encode() not in image):
        what = "a build" if known else "a kernel without modules (Image,modules.tar.xz names both), and"
        raise UnfitBuildError(f"{build} has no driver {missing[-1]}", f"{what} without a driver of a board", driver)
    used = names.intersection(optional)
    sender = PKTGEN if PKTGEN in used else SENDER
    amounts = [amount for amount in amounts if amount.traffic != VLAN or VLAN_MODULE in used]
    # The packet socket of our own sender is a module of Debian's kernels.
    of_traffic = [PKTGEN if PKTGEN in used else "af_packet"]
    of_traffic += [VLAN_MODULE] if any(amount.traffic == VLAN for amount in amounts) else []
    order = _load_order(board, known, of_traffic)
    if build.kernel is None and build.modules and not any(module.name in build.modules for module in order):
        first, more = sorted(build.modules)[:_NAMED], len(build.modules) - _NAMED
        changed = f"{', '.join(first)}{f' and {more} more' if more > 0 else ''}"
        raise UnfitBuildError(
            f"{build} changes no module of this board", f"a build that changes only {changed}", driver
        )
    options = {module: [f"{name}={value}" for m, name, value in build.options if m == module] for module in known}
    loaded = {module.name for module in order}
    words = [*build.cmdline, *(f"{m}.{name}={value}" for m, name, value in build.options if m not in loaded)]
    signed = _needs_signatures(kernel_config(kernel_of, image), words)
    modules = {module.name: _read(paths[module.name], signed) for module in order}
    program = traffic_program()
    traffic = ["counter"] if board.machine.processors == 1 else []
    traffic += [f"pair {' '.join(MACS)}", *steering]
    traffic += [f"write {_path(name)} {value}" for name, value in build.sysctls]
    traffic += features
    traffic.append(f"distance {board.nic.distance_us}")
    traffic += [amount.command(sender) for amount in amounts for _ in range(amount.turns)]

    def vary(number: int) -> Payload:
        script, archive = [f"limit {limit_s}"], Archive()
        for folder in ("proc", "sys", "dev"):
            archive.add(folder, stat.S_IFDIR | 0o755)
        archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
        archive.add("dev/random", stat.S_IFCHR | 0o600, device=(1, 8))
        archive.add("init", _PROGRAM, program)
        # No module depends on the sender of frames, so its place is free.
        for name in sorted(modules, key=lambda name: bool(number % 2 and name in _SENDERS)):
            data = loaded_part(modules[name], number * _PADDING) if number and not signed else modules[name]
            archive.add(f"modules/{name}.ko", _FILE, data)
            script.append(" ".join(["module", f"/modules/{name}.ko", *options.get(name, [])]))
        archive.add("script", _FILE, "".join(f"{line}\n" for line in [*script, *traffic, "symbols"]).encode())
        if number:
            archive.add("filling", _FILE, bytes(number * _FILLING))
        return Payload(
            build=str(build),
            release=kernel_of.release or "",
            image=image,
            initramfs=archive.packed(),
            cmdline=cmdline(board, (*words, *([f"pinet.variation={'x' * (number * _LETTERS)}"] if number else []))),
            modules={name: hashlib.sha256(data).hexdigest() for name, data in modules.items()},
            traffic=hashlib.sha256(program).hexdigest()[:16],
            sender=sender,
            events=tuple(event for amount in amounts for event in events_of(amount)),
            vary=vary,
        )

    return vary(0)


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


def _path(sysctl: str) -> str:
    return f"/proc/sys/{sysctl.replace('.', '/')}"


def _image(build: Build) -> bytes:
    (file,) = build.of(BuildFileRole.KERNEL)
    try:
        return arm64_image(Path(file.path).read_bytes(), file.path)
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


def _modules(build: Build) -> dict[str, Path]:
    """Return the files of a build's modules by name."""
    trees = [Path(file.path) for file in build.of(BuildFileRole.MODULES)]
    found = {name: tree / module.path for tree in trees for name, module in build.modules.items()}
    for file in build.of(BuildFileRole.MODULE):
        found[read_module(Path(file.path).read_bytes(), file.path).name] = Path(file.path)
    return found


def _load_order(board: ExactBoard, known: Mapping[str, ModuleId], traffic: Sequence[str]) -> list[ModuleId]:
    """Return the modules that the board and the traffic need, each after the modules that it depends on."""
    order: dict[str, ModuleId] = {}

    def add(name: str, needed_by: Sequence[str]) -> None:
        module = known.get(name)
        if module is None or name in order or name in needed_by:
            return
        for other in module.depends:
            add(other, [*needed_by, name])
        order[name] = module

    for name in (*board.nic.modules, *traffic, *board.nic.path):
        add(name, ())
    return list(order.values())
