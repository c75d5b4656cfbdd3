"""Finds out, before any boot, whether a kernel was built with all that an exact board needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from pytest_pinet.builds.archives import Unreadable, unpacked
from pytest_pinet.errors import CapabilityError
from pytest_pinet.model.build import Build, BuildFileRole

# What the traffic program needs of every kernel. The NIC's driver may be a module, and pktgen has a substitute.
NEEDED = {
    "CONFIG_BLK_DEV_INITRD": "an initramfs",
    "CONFIG_SERIAL_AMBA_PL011_CONSOLE": "the console of the board",
    "CONFIG_PROC_FS": "/proc",
    "CONFIG_NET_NS": "network namespaces",
    "CONFIG_INET": "IPv4",
    "CONFIG_KALLSYMS": "/proc/kallsyms",
}
# What a board with a slot needs, too.
SLOT = {"CONFIG_HOTPLUG_PCI_PCIE": "PCI Express devices that are plugged in"}
# What packet steering needs, too.
RPS = {"CONFIG_RPS": "packet steering"}
# The kernel's own copy of its configuration: in its image (CONFIG_IKCONFIG=y), or in a module (bcm2711_defconfig has
# CONFIG_IKCONFIG=m).
_MODULE = "configs"
_BEGIN, _END = b"IKCFG_ST", b"IKCFG_ED"
_SET = re.compile(r"^(CONFIG_\w+)=(.+)$", re.MULTILINE)


def require_config(build: Build, image: bytes, more: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the options of the kernel of a build, as ``kernel_config`` does. ``image`` is the unpacked kernel image.

    Raises CapabilityError if it lacks what exact boards need. ``more`` are needs of this board. A kernel whose
    configuration is nowhere is accepted: the board finds out.
    """
    config = kernel_config(build, image)
    if not config:
        return config
    missing = [f"{what} ({name})" for name, what in {**NEEDED, **more}.items() if config.get(name) != "y"]
    if missing:
        raise CapabilityError(
            f"exact boards cannot boot {build}: its kernel was built without {', '.join(missing)}; set these options "
            "to y in its configuration"
        )
    return config


def kernel_config(build: Build, image: bytes) -> dict[str, str]:
    """Return the options with which a kernel was built: of its own copy, its package or its tree; empty if unknown."""
    for data in chain([image], _modules_with_copy(build)):
        begin = data.find(_BEGIN)
        end = data.find(_END, begin)
        if 0 <= begin < end:
            try:
                return _options(unpacked(data[begin + len(_BEGIN) : end]).decode("utf-8", "replace"))
            except Unreadable:
                pass  # these words may stand in other data
    for path in _files(build):
        try:
            return _options(path.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
    return {}


def _options(text: str) -> dict[str, str]:
    return dict(_SET.findall(text))


def _modules_with_copy(build: Build) -> Iterator[bytes]:
    if (module := build.modules.get(_MODULE)) is not None:
        for tree in build.of(BuildFileRole.MODULES):
            try:
                yield unpacked((Path(tree.path) / module.path).read_bytes())
            except (Unreadable, OSError):
                continue  # the payload reads the modules that the board loads, and says what is wrong with them


def _files(build: Build) -> list[Path]:
    """Return where the configuration of a build's kernel can be, the surest place first."""
    found = []
    for file in build.of(BuildFileRole.KERNEL):
        image = Path(file.path).resolve()
        found.append(image.with_name(f"config-{build.release}"))
        # arch/arm64/boot/Image of a kernel tree
        if image.parts[-4:-1] == ("arch", "arm64", "boot"):
            found.append(image.parents[3] / ".config")
    found += [Path(tree.path) / "build" / ".config" for tree in build.of(BuildFileRole.MODULES)]
    return found
