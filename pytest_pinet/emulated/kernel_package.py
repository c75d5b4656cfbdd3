"""Read a kernel from its Debian package: Image, device trees, and the modules that an emulated board needs."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_pinet.builds.archives import Unreadable, unpacked
from pytest_pinet.builds.kernel_files import bootable, is_arm64, name_of
from pytest_pinet.emulated.card import tool
from pytest_pinet.emulated.packages import open_package
from pytest_pinet.errors import LabError

# Folders and files below kernel/ of the modules: drivers of the emulated hardware, and modules for tunings and
# traffic. A whole package has about 4,000 modules and 300 MB, which each board's card would have to hold.
WANTED = (
    "arch/*/crypto/*",
    "crypto/*",
    "drivers/block/virtio_blk.ko*",
    "drivers/char/hw_random/*",
    "drivers/char/virtio_console.ko*",
    "drivers/mmc/host/bcm2835.ko*",
    "drivers/net/ethernet/intel/e100.ko*",
    "drivers/net/ethernet/intel/e1000/*",
    "drivers/net/ethernet/intel/e1000e/*",
    "drivers/net/ethernet/intel/igb/*",
    "drivers/net/ethernet/intel/igbvf/*",
    "drivers/net/phy/*",
    "drivers/net/usb/*",
    "drivers/net/virtio_net.ko*",
    "drivers/net/vmxnet3/*",
    "drivers/ptp/*",
    "drivers/usb/dwc2/*",
    "drivers/usb/host/xhci*",
    "drivers/usb/phy/phy-generic.ko*",
    "drivers/virtio/*",
    "drivers/watchdog/bcm2835_wdt.ko*",
    "drivers/watchdog/i6300esb.ko*",
    "fs/ext4/*",
    "fs/fat/*",
    "fs/nls/*",
    # Tagged VLANs, and bridges with VLAN filtering.
    "net/8021q/*",
    "net/bridge/bridge.ko*",
    "net/ipv4/tcp_*.ko*",
    "net/sched/*",
)
_MODINFO = re.compile(rb"(?:^|\0)depends=([^\0]*)\0")


def arm64_image(data: bytes, name: str) -> bytes:
    """Return the raw arm64 Image of a ``vmlinuz``, which may be packed, or an EFI zboot image. Raises LabError."""
    try:
        plain = unpacked(bootable(data))
    except Unreadable as error:
        raise LabError(f"{name} is not an arm64 kernel: {error}") from None
    if not is_arm64(plain):
        raise LabError(f"{name} is not an arm64 kernel: it has {plain[0x38:0x3C]!r} at offset 0x38, expected b'ARMd'")
    return plain


class KernelPackage:
    """A ``linux-image`` package. ``release`` is the release name of its kernel."""

    def __init__(self, package: Path) -> None:
        self._package = package
        self._tar = open_package(package)
        self._modules: dict[str, tarfile.TarInfo] = {}
        images = []
        self._others: list[tarfile.TarInfo] = []
        self._device_trees: dict[str, tarfile.TarInfo] = {}
        for member in self._tar:
            path = member.name.removeprefix("./").removeprefix("usr/")
            parts = path.split("/")
            if path.startswith("boot/vmlinuz-"):
                images.append((member, path.removeprefix("boot/vmlinuz-")))
            elif path.startswith("lib/linux-image-") and path.endswith(".dtb"):
                self._device_trees[parts[-1]] = member
            elif parts[:2] == ["lib", "modules"] and len(parts) > 3:
                inside = "/".join(parts[3:])
                if ".ko" in parts[-1]:
                    self._modules[inside.removeprefix("kernel/")] = member
                elif member.isfile() and inside.startswith("modules."):
                    self._others.append(member)
        if not images:
            raise LabError(f"{package.name} is not a kernel package: it has no boot/vmlinuz-*")
        self._image, self.release = images[-1]

    def image(self) -> bytes:
        """Return the raw Image. Raises LabError."""
        return arm64_image(self._read(self._image), f"{self._image.name} in {self._package.name}")

    def device_trees(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the named device trees that the package has."""
        return {name: self._read(self._device_trees[name]) for name in names if name in self._device_trees}

    def install_modules(self, root: Path, more: Sequence[str] = ()) -> Path:
        """Install the wanted modules and their dependencies below ``root``/lib/modules. Return their folder.

        ``more`` are paths of modules beside ``WANTED``.
        """
        folder = root / "usr" / "lib" / "modules" / self.release
        for path, data in self._selected((*WANTED, *more)).items():
            target = folder / "kernel" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        for member in self._others:
            (folder / member.name.rpartition("/")[2]).write_bytes(self._read(member))
        tool("depmod", "-b", str(root / "usr"), self.release)
        return folder

    def _selected(self, wanted: Sequence[str]) -> Mapping[str, bytes]:
        """Return modules and their dependencies by path. Debian's are uncompressed up to 6.1, and use xz later."""
        by_name = {name_of(path): path for path in self._modules}
        todo = [path for path in self._modules if any(fnmatchcase(path, glob) for glob in wanted)]
        found: dict[str, bytes] = {}
        while todo:
            path = todo.pop()
            if path in found:
                continue
            found[path] = self._read(self._modules[path])
            todo += [by_name[name] for name in dependencies(found[path]) if name in by_name]
        return found

    def _read(self, member: tarfile.TarInfo) -> bytes:
        file = self._tar.extractfile(member)
        assert file is not None
        return file.read()


def dependencies(module: bytes) -> list[str]:
    """Return the names of the modules that a module depends on, from its ``.modinfo``."""
    found = _MODINFO.search(unpacked(module))
    return [name.replace("-", "_") for name in found[1].decode().split(",") if name] if found else []
