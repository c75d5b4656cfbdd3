"""Drivers that were built again without a change that runs, or with four instructions more in one function."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from pytest_pinet.builds.load import load_build
from pytest_pinet.exact.board import ExactBoard
from pytest_pinet.exact.measure import exact_boards
from pytest_pinet.model.build import Build
from tests.support.driver_builds import BUILD_TIMEOUT_S, driver_sources

# Functions that handle each frame, by module. The file with the first one is changed at random.
ON_PATH: Mapping[str, tuple[str, ...]] = {
    "asix": ("asix_rx_fixup_internal", "asix_tx_fixup"),
    "atlantic": ("aq_ndev_start_xmit", "aq_vec_poll", "aq_ring_rx_clean", "aq_ring_tx_clean"),
    "ax88179_178a": ("ax88179_rx_fixup", "ax88179_tx_fixup"),
    "e1000e": ("e1000_receive_skb", "e1000_xmit_frame", "e1000_clean_tx_irq", "e1000_intr_msix_rx"),
    "genet": ("bcmgenet_rx_poll", "bcmgenet_xmit", "bcmgenet_tx_poll", "bcmgenet_isr1"),
    "igb": ("igb_xmit_frame_ring", "igb_poll", "igb_msix_ring", "igb_alloc_rx_buffers"),
    "igc": ("igc_poll", "igc_xmit_frame", "igc_intr_msi", "igc_alloc_rx_buffers"),
    "lan78xx": ("lan78xx_skb_return", "lan78xx_start_xmit"),
    "macb": ("gem_rx", "macb_start_xmit", "macb_tx_poll", "macb_interrupt"),
    "r8152": ("r8152_poll", "rtl8152_start_xmit", "rtl8152_features_check", "bottom_half"),
    "r8169": ("rtl8169_poll", "rtl8169_start_xmit", "rtl8169_interrupt", "rtl8169_features_check"),
    "smsc95xx": ("smsc95xx_rx_fixup", "smsc95xx_tx_fixup"),
    "usbnet": ("usbnet_skb_return", "usbnet_start_xmit"),
    "virtio_net": ("start_xmit", "virtnet_poll", "free_old_xmit_skbs", "receive_buf"),
}


def _module_of(board: ExactBoard) -> str:
    """Return the module that handles the frames of a board: cdc_ether, for one, leaves them to usbnet."""
    found = [module for module in board.nic.path if module in ON_PATH]
    assert found, f"the exact board {board.name} needs a line in ON_PATH"
    return found[-1]


# Boards that came after the counts in docs/contributing/soak.md: nothing is known of their rebuilds.
UNCOUNTED = ("ax88772",)
# The module that is built again, by board. Boards with a slot have the drivers of other boards.
MODULES = {
    name: _module_of(board)
    for name, board in exact_boards().items()
    if not board.machine.slot and name not in UNCOUNTED
}
# The compiler makes the same code with all of these at a place, because it counts each as one instruction.
_PLACE = '\n\tasm_inline volatile("{}");\n'
_FOUR = "nop\\n\\tnop\\n\\tnop\\n\\tnop"
# Without them, the compiler pads loops by instructions that run, and their number depends on the place of the loop.
_NO_PADDING = " -fno-align-loops -fno-align-jumps -fno-align-labels"
# Options of the compiler that change no instruction which runs.
_OPTIONS = ("-g", "-g3", "-g0 -falign-functions=64", "-g -gdwarf-4", "-g0 -falign-functions=128", "-g1 -fno-ident")
# Words of the kernel that move memory: none is a word of pinet. A contiguous area ("cma=16M") would be a change: the
# NIC's rings come from it, and the kernel looks at each of its pages before the place that it finds.
_WORDS = ("", "log_buf_len=256K", "log_buf_len=1M", "nothing", "log_buf_len=2M", "ignored={}", "another.word={}")


def rebuilt(driver: str, number: int, folder: Path, longer: str = "") -> Build:
    """Build a driver again without a change that runs, or with four more instructions in the function ``longer``.

    All else differs at random between two numbers.
    """
    random = Random(f"{driver} {number}")
    folder /= "x" * random.randrange(1, 120)
    argv = driver_sources(folder, driver)
    for change in random.sample((_padded, _longer, _reordered), random.randrange(4)):
        change(folder, driver, random)
    if longer:
        _insert(folder, longer, _FOUR)
    word = random.choice(_WORDS).format("x" * random.randrange(1, 300))
    text = f"name: rebuild {number}\nmodules: {driver}.ko\n" + (f"cmdline: {word}\n" if word else "")
    (folder / "build.yaml").write_text(text)
    options = f"{random.choice(_OPTIONS)}{_NO_PADDING if longer else ''}"
    _make([one.replace("KCFLAGS=-g0", f"KCFLAGS={options}") for one in argv])
    return load_build(str(folder))


def not_longer(driver: str, function: str, folder: Path) -> Build:
    """Build a driver with no instruction more where `rebuilt` inserts four, so that nothing else differs."""
    argv = driver_sources(folder, driver)
    _insert(folder, function, "")
    _make([f"{one}{_NO_PADDING}" if one.startswith("KCFLAGS=") else one for one in argv])
    return load_build(str(folder / f"{driver}.ko"))


def _make(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def _insert(folder: Path, function: str, instructions: str) -> None:
    """Insert instructions at the begin of a function."""
    file, added = _file_with(folder, function), _PLACE.format(instructions)
    file.write_text(_begin_of(function).sub(lambda found: found[0] + added, file.read_text()))


def _begin_of(function: str) -> re.Pattern[str]:
    """Return what matches the begin of the definition of a function, up to its brace."""
    return re.compile(rf"^(?:[A-Za-z_][\w \t*]*[ \t*\n])?{function} ?\([^;{{]*\)\n\{{", re.MULTILINE)


def _file_with(folder: Path, function: str) -> Path:
    """Return the only file that defines a function, once."""
    begin = _begin_of(function)
    found = [file for file in sorted(folder.rglob("*.c")) for _ in begin.findall(file.read_text())]
    assert len(found) == 1, f"{function} has {len(found)} definitions: {found}"
    return found[0]


def _padded(folder: Path, driver: str, random: Random) -> None:
    """Add data that nothing reads, and a function that nothing calls."""
    file = _file_with(folder, ON_PATH[driver][0])
    data = "".join(
        f"static {kind} char pinet_padding_{index}[{random.randrange(1, 20_000)}] __attribute__((used)){value};\n"
        for index, (kind, value) in enumerate((("", ""), ("", " = {1}"), ("const", " = {1}")))
    )
    code = f'\tasm volatile(".rept {random.randrange(1, 3_000)}\\n\\tnop\\n\\t.endr");\n'
    more = f"\nstatic void __attribute__((used)) pinet_never_called(void)\n{{\n{code}}}\n"
    file.write_text(file.read_text() + "\n" + data + more)


def _longer(folder: Path, driver: str, random: Random) -> None:
    """Add texts about the module."""
    file = _file_with(folder, ON_PATH[driver][0])
    file.write_text(file.read_text() + f'\nMODULE_INFO(pinet, "{"x" * random.randrange(1, 9_000)}");\n')


def _reordered(folder: Path, driver: str, random: Random) -> None:
    """Link the objects in another order, or begin the file with another function."""
    makefile = folder / "Makefile"
    text = makefile.read_text() if makefile.exists() else ""
    found = re.search(rf"^({driver}-(?:objs|y)\s*:=)((?:.*\\\n)*.*)$", text, re.MULTILINE)
    if found is None:
        file = _file_with(folder, ON_PATH[driver][0])
        lines = file.read_text().splitlines(keepends=True)
        last = max(index for index, line in enumerate(lines) if line.startswith("#include"))
        first = 'static void __attribute__((used)) pinet_first(void)\n{\n\tasm volatile("nop");\n}\n'
        file.write_text("".join([*lines[: last + 1], first, *lines[last + 1 :]]))
        return
    objects = found[2].replace("\\\n", " ").split()
    random.shuffle(objects)
    makefile.write_text(f"{text[: found.start()]}{found[1]} {' '.join(objects)}{text[found.end() :]}")
