"""``pinet gate --exact`` for the folder of ``make`` of a kernel tree, with the small configuration of the how-to."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pytest_pinet.emulated.image import cache, locked
from pytest_pinet.emulated.packages import Apt
from pytest_pinet.errors import LabError
from pytest_pinet.exact.lab_boards import exact_boards
from pytest_pinet.exact.qemu import PROGRAM, unpacked_folder
from tests.support.console_blocks import DOCS
from tests.support.driver_builds import CROSS, PATCHES, TOOLS
from tests.support.gate_project import PINET

NEEDED = (PROGRAM, *TOOLS, "flex", "bison", "bc")
MISSING = [name for name in NEEDED if shutil.which(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.emulated,
    pytest.mark.skipif(bool(MISSING), reason=f"a kernel is built and booted here with {', '.join(MISSING)}"),
]
SOURCE = "linux-source-6.1"
# Five minutes of processor time.
BUILD_TIMEOUT_S = 3000.0
GATE_TIMEOUT_S = 900.0
# By module: the function with four instructions more, and its file.
LONGER = {
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


def run(*argv: str | Path, timeout_s: float = BUILD_TIMEOUT_S) -> None:
    subprocess.run([str(word) for word in argv], timeout=timeout_s, check=True)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Path]:
    """Unpack the source of Debian's kernel, which has 1.5 GB."""
    with locked(cache()):
        apt = Apt(cache() / "apt", print)
        try:
            apt.update()
            package = apt.fetch(SOURCE)
        except LabError as error:
            pytest.skip(f"the source of the kernel is not here: {error}")
        run("dpkg-deb", "-x", package, tmp_path / "package")
        package.unlink()
    run("tar", "-C", tmp_path, "-xJf", next((tmp_path / "package").rglob("*.tar.xz")))
    yield tmp_path / SOURCE
    shutil.rmtree(tmp_path / SOURCE)
    shutil.rmtree(tmp_path / "package")


def small_configuration() -> str:
    """Return the configuration of the how-to."""
    (found,) = re.findall(r"^```kconfig\n(.*?)^```", (DOCS / "how-to" / "exact-gate.md").read_text(), re.M | re.S)
    return str(found)


def test_the_folder_of_make_is_gated_on_all_boards_and_longer_functions_are_named_with_their_lines(
    source: Path, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    (tmp_path / "small.config").write_text(small_configuration())
    make = ["make", "-s", "-C", str(source), f"O={tmp_path / 'out'}", "ARCH=arm64", f"CROSS_COMPILE={CROSS}"]
    run(*make, f"KCONFIG_ALLCONFIG={tmp_path / 'small.config'}", "allnoconfig")
    run(*make, f"-j{os.cpu_count()}", "Image", "modules")
    shutil.copytree(tmp_path / "out", tmp_path / "good", symlinks=True)
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
    run(*make, "Image", "modules")
    out = gate()
    for driver, (function, file) in LONGER.items():
        if driver == "igb" and not unpacked_folder().is_dir():
            continue
        changed = re.search(rf"^{function} \[{driver}\] .* \+4\.00\n *(\S+)$", out, re.MULTILINE)
        assert changed is not None, out
        path, _, line = changed[1].partition(":")
        assert path == file
        assert f"{function}(" in (source / path).read_text().splitlines()[int(line) - 1]
