"""``pinet gate --exact`` for the folder of ``make`` of a kernel tree, with the small configuration of the how-to."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pytest_pinet.exact.measure import exact_boards
from pytest_pinet.exact.qemu import PROGRAM, unpacked_folder
from pytest_pinet.tree.builder import small_config
from tests.support.driver_builds import PATCHES
from tests.support.gate_project import PINET
from tests.support.kernel_source import NEEDED, configure, make, run, unpacked_source

MISSING = [name for name in (PROGRAM, *NEEDED) if shutil.which(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulated,
    pytest.mark.skipif(bool(MISSING), reason=f"a kernel is built and booted here with {', '.join(MISSING)}"),
]
GATE_TIMEOUT_S = 3000.0
# By module: the function with four instructions more, and its file.
LONGER = {
    "asix": ("asix_rx_fixup_internal", "drivers/net/usb/asix_common.c"),
    "atlantic": ("aq_ring_rx_clean", "drivers/net/ethernet/aquantia/atlantic/aq_ring.c"),
    "ax88179_178a": ("ax88179_rx_fixup", "drivers/net/usb/ax88179_178a.c"),
    "e1000e": ("e1000_receive_skb", "drivers/net/ethernet/intel/e1000e/netdev.c"),
    "genet": ("bcmgenet_rx_poll", "drivers/net/ethernet/broadcom/genet/bcmgenet.c"),
    "igb": ("igb_poll", "drivers/net/ethernet/intel/igb/igb_main.c"),
    "igc": ("igc_poll", "drivers/net/ethernet/intel/igc/igc_main.c"),
    "lan78xx": ("lan78xx_skb_return", "drivers/net/usb/lan78xx.c"),
    "macb": ("gem_rx", "drivers/net/ethernet/cadence/macb_main.c"),
    "r8152": ("r8152_poll", "drivers/net/usb/r8152.c"),
    "r8169": ("rtl8169_poll", "drivers/net/ethernet/realtek/r8169_main.c"),
    "smsc95xx": ("smsc95xx_rx_fixup", "drivers/net/usb/smsc95xx.c"),
    "usbnet": ("usbnet_skb_return", "drivers/net/usb/usbnet.c"),
    "virtio_net": ("receive_buf", "drivers/net/virtio_net.c"),
}
# Around the four, gcc 12 places other instructions of this function in another way.
OTHERWISE = {"lan78xx": "+3.00"}


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Path]:
    found = unpacked_source(tmp_path)
    yield found
    shutil.rmtree(found)


def test_the_folder_of_make_is_gated_on_all_boards_and_longer_functions_are_named_with_their_lines(
    source: Path, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    out_folder = tmp_path / "out"
    configure(source, out_folder, small_config().text)
    run(*make(source, out_folder), f"-j{os.cpu_count()}", "Image", "modules")
    shutil.copytree(out_folder, tmp_path / "good", symlinks=True)
    if unpacked_folder().is_dir():
        # igb needs a newer QEMU than Debian 12 has.
        newer = Path(environment["XDG_CACHE_HOME"]) / "pinet" / "exact" / "qemu"
        newer.parent.mkdir()
        newer.symlink_to(unpacked_folder())

    def gate() -> str:
        done = subprocess.run(
            [PINET, "gate", "--exact", "out", "--against=good", "-p", "no:cacheprovider"],
            cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=GATE_TIMEOUT_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    out = gate()
    # Without a newer QEMU, igb is skipped.
    boards = len(exact_boards()) - (not unpacked_folder().is_dir())
    assert re.search(rf"^\d+ unchanged; {boards} boots$", out, re.MULTILINE), out
    for patch in sorted(PATCHES.glob("four-instructions*.patch")):
        # Received packets are enough.
        if not patch.stem.endswith("-tx"):
            run("patch", "-p1", "--fuzz=0", "-d", source, "-i", patch)
    run(*make(source, out_folder), "Image", "modules")
    out = gate()
    for driver, (function, file) in LONGER.items():
        if driver == "igb" and not unpacked_folder().is_dir():
            continue
        grown = re.escape(OTHERWISE.get(driver, "+4.00"))
        changed = re.search(rf"^{function} \[{driver}\] .* {grown}\n *(\S+)$", out, re.MULTILINE)
        assert changed is not None, out
        path, _, line = changed[1].partition(":")
        assert path == file
        assert function in (source / path).read_text().splitlines()[int(line) - 1]
