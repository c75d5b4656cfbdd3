"""Finds out, before any boot, whether a kernel was built with all that an exact board needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from pytest_pinet.builds.packed import Unreadable, unpacked
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
# The kernel's own copy of its configuration, in its image (CONFIG_IKCONFIG=y) or in the module "configs"
# (CONFIG_IKCONFIG=m, as in the defconfigs of Raspberry Pi).
_BEGIN, _END = b"IKCFG_ST", b"IKCFG_ED"
_MODULE = "configs"
_SET = re.compile(r"^(CONFIG_\w+)=(.+)$", re.MULTILINE)


def require_config(build: Build, image: bytes, more: Mapping[str, str] = MappingProxyType({})) -> None:
    """Raise CapabilityError if the kernel of a build lacks what exact boards need. ``more`` are needs of this board.

    ``image`` is the unpacked kernel image. A kernel whose configuration is nowhere is accepted: the board finds out.
    """
    config = kernel_config(build, image)
    if not config:
        return
    missing = [f"{what} ({name})" for name, what in {**NEEDED, **more}.items() if config.get(name) != "y"]
    if missing:
        raise CapabilityError(
            f"exact boards cannot boot {build}: its kernel was built without {', '.join(missing)}; set these options "
            "to y in its configuration"
        )


def kernel_config(build: Build, image: bytes) -> dict[str, str]:
    """Return the options with which a kernel was built; empty if unknown.

    They are in its image, in one of its modules, in its package or in its tree.
    """
    for data in chain([image], _module(build)):
        begin = data.find(_BEGIN)
        end = data.find(_END, begin)
        if 0 <= begin < end:
            # These words may stand in other data.
            with suppress(Unreadable):
                return dict(_SET.findall(unpacked(data[begin + len(_BEGIN) : end]).decode("utf-8", "replace")))
    for path in _files(build):
        try:
            return dict(_SET.findall(path.read_text(encoding="utf-8", errors="replace")))
        except OSError:
            continue
    return {}


def _module(build: Build) -> Iterator[bytes]:
    """Yield the module that has the configuration, if the build has this module."""
    for tree in build.of(BuildFileRole.MODULES):
        if (module := build.modules.get(_MODULE)) is not None:
            with suppress(OSError, Unreadable):
                yield unpacked((Path(tree.path) / module.path).read_bytes())


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
