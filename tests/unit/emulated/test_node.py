"""What the firmware of an emulated board says on the console, without a kernel that boots."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.emulated.card import make_card
from pytest_pinet.emulated.machine import RASPI3B
from pytest_pinet.emulated.node import EmulatedNode
from pytest_pinet.virtual.loopback import Console
from pytest_pinet.virtual.node import Folders
from pytest_pinet.virtual.spec import spec_of
from tests.support.build_files import device_tree, image
from tests.support.console_blocks import ROOT

TOOLS = ("mkfs.vfat", "mke2fs", "mcopy")


@pytest.mark.skipif(
    any(shutil.which(tool, path="/usr/sbin:/sbin:/usr/bin:/bin") is None for tool in TOOLS),
    reason="dosfstools, e2fsprogs or mtools are missing",
)
def test_a_board_stays_dark_with_a_kernel_whose_pages_its_processor_lacks(tmp_path: Path) -> None:
    board = next(one for one in spec_of(load(ROOT / "lab/emulated.yaml")).nodes if one.node.name == "raspi3b")
    (tmp_path / "root").mkdir()

    async def start() -> None:
        console = Console(tmp_path / "console.log", os.getuid())
        folders = Folders(tmp_path / "boot", tmp_path / "card", tmp_path / "keys")
        node = EmulatedNode(board, folders, console, lambda: None, tmp_path / "image")
        files = {"kernel8.img": image(pages_kib=16), RASPI3B.device_trees[0]: device_tree()}
        (tmp_path / "card").mkdir()
        make_card(tmp_path / "card/card.img", tmp_path / "root", files)
        await node._start()
        for server in (console, node.relay):
            server._listener.close()

    asyncio.run(start())
    said = (tmp_path / "console.log").read_text()
    assert "firmware: the kernel has pages of 16 KiB, but the processor of raspi3b has none of this size" in said
