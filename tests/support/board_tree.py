"""A folder with the files of /sys and /proc that say what a board is, and an ethtool that reads this folder."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.local_shell import LocalShell

_ETHTOOL = """\
#!/bin/sh
[ -e {root}/ethtool/$2$1 ] || exit 75
cat {root}/ethtool/$2$1
"""
_BASE = "sys/firmware/devicetree/base"


class BoardTree:
    """The board. ``root`` is what stands for /."""

    def __init__(self, root: Path, model: str = "") -> None:
        self.root = root
        (root / "sys/class/net").mkdir(parents=True)
        (root / _BASE).mkdir(parents=True)
        (root / "proc").mkdir()
        (root / "proc/device-tree").symlink_to(root / _BASE)
        tool = root / "bin/ethtool"
        tool.parent.mkdir()
        tool.write_text(_ETHTOOL.format(root=root))
        tool.chmod(0o755)
        if model:
            self._write(f"{_BASE}/model", f"{model}\0")

    def own_nic(self, node: str) -> None:
        """Make this path the alias ``ethernet0`` of the device tree."""
        (self.root / _BASE / node.lstrip("/")).mkdir(parents=True, exist_ok=True)
        self._write(f"{_BASE}/aliases/ethernet0", f"{node}\0")

    def nic(
        self, device: str, place: str, mac: str, driver: str, subsystem: str, bus_info: str = "", permanent: str = ""
    ) -> Path:
        """Add a network device with its driver. ``place`` is its folder below /sys/devices. Return this folder."""
        folder = self.root / "sys/devices" / place
        drivers, bus = self.root / f"sys/bus/{subsystem}/drivers/{driver}", self.root / f"sys/bus/{subsystem}"
        for path in (folder, drivers):
            path.mkdir(parents=True, exist_ok=True)
        (folder / "driver").symlink_to(drivers)
        (folder / "subsystem").symlink_to(bus)
        own = self.plain(device, mac)
        (own / "device").symlink_to(folder)
        if bus_info:
            self._write(f"ethtool/{device}-i", f"driver: {driver}\nversion: 6.12\nbus-info: {bus_info}\n")
        if permanent:
            self._write(f"ethtool/{device}-P", f"Permanent address: {permanent}\n")
        return folder

    def plain(self, device: str, mac: str) -> Path:
        """Add a network device without hardware. Return its folder."""
        own = self.root / "sys/class/net" / device
        own.mkdir()
        (own / "address").write_text(f"{mac}\n")
        return own

    def node_of(self, folder: Path, node: str) -> None:
        """Give the device in ``folder`` this node of the device tree."""
        (folder / "of_node").symlink_to(self.root / _BASE / node.lstrip("/"))

    def shell(self) -> LocalShell:
        return LocalShell("pi", {"PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"})

    def _write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
