"""Device models of NICs: compiles one for a QEMU, proves that this QEMU can load it, and makes its device tree.

``devices/device.h`` says what a model is. QEMU itself is not changed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory

from pytest_pinet.errors import CapabilityError, LabError
from pytest_pinet.evidence.fdt import read_device_tree, write_device_tree
from pytest_pinet.exact.board import DEVICES_AT, DEVICES_SPI, MACS, ExactBoard, machine_arguments
from pytest_pinet.exact.qemu import VARIABLE, Qemu, compiled, loads_plugins, unpacked_folder
from pytest_pinet.exact.store import exact_cache
from pytest_pinet.execution.shell import output

_SELFTEST = "selftest"
_PROVED = "pinet-selftest: proved"
# It takes 0.03 s; a busy machine may need longer.
SELFTEST_S = 20.0
_PLACE = f"at={DEVICES_AT},spi={DEVICES_SPI}"


@dataclass(frozen=True)
class Model:
    """The model of a board's NIC as QEMU loads it. ``tree`` is the device tree, ``sha256`` the hash of all of it."""

    path: Path
    words: str
    tree: bytes
    sha256: str


def model_for(board: ExactBoard, qemu: Qemu) -> Model | None:
    """Return the model of a board's NIC; None if QEMU itself has the NIC.

    Raises CapabilityError if this machine or this QEMU cannot have it, LabError if the cache is unusable.
    """
    if board.nic.model is None:
        return None
    why = f"the exact board {board.name} needs a device model of its NIC"
    if not loads_plugins(qemu, board.machine.processors):
        raise CapabilityError(
            f"{why}, but QEMU {qemu.version_text} aborts if a plugin is loaded and a second processor starts: use QEMU "
            f"7.2, or remove 'cores: {board.machine.processors}' from its board"
        )
    path, source = _compiled(board.nic.model.source, qemu, why)
    if failure := _failure(qemu, why):
        raise CapabilityError(
            f"{why}, but {qemu.command[0]} (QEMU {qemu.version_text}) cannot load one: {failure}; Debian's QEMU 7.2 "
            f"and 10.0 can: run `pinet emulated qemu`, which unpacks one, and set {VARIABLE} to {unpacked_folder()}"
        )
    tree = _tree(board, qemu)
    words = ",".join([_PLACE, *board.nic.model.words, *(f"mac{i}={mac}" for i, mac in enumerate(MACS))])
    digest = hashlib.sha256(b"\0".join([source.encode(), words.encode(), tree])).hexdigest()
    return Model(path, words, tree, digest)


def _compiled(name: str, qemu: Qemu, why: str) -> tuple[Path, str]:
    """Return the plugin of a model, and the hash of its sources and of the compiler's arguments."""
    folder = resources.files("pytest_pinet.exact").joinpath("devices")
    headers = {one.name: one.read_bytes() for one in folder.iterdir() if one.name.endswith(".h")}
    try:
        return compiled({f"{name}.c": folder.joinpath(f"{name}.c").read_bytes(), **headers}, qemu.plugin_api)
    except CapabilityError as error:
        raise CapabilityError(f"{why}: {error.message}") from None


def _failure(qemu: Qemu, why: str) -> str:
    """Return why a QEMU cannot load models; empty if it can, which each QEMU proves once for each self-test."""
    path, source = _compiled(_SELFTEST, qemu, why)
    proof = exact_cache() / f"loads-models-{qemu.sha256[:16]}-{source[:16]}"
    if proof.is_file():
        return ""
    if not (failure := _selftest(qemu, path)):
        proof.touch()
    return failure


def _selftest(qemu: Qemu, path: Path) -> str:
    # S: the processor does not run. A crash of a QEMU with other structures ends only this process.
    argv = [*qemu.command, "-machine", "virt,gic-version=2", "-cpu", "cortex-a72", "-m", "64M", "-nodefaults"]
    argv += ["-no-user-config", "-display", "none", "-S", "-plugin", f"{path},{_PLACE}"]
    environment = {**os.environ, **qemu.environment, "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=SELFTEST_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"its self-test gave no answer within {SELFTEST_S:g} s"
    except OSError as error:
        raise LabError(f"{argv[0]} cannot be started: {error.strerror}") from None
    lines = (done.stdout + done.stderr).decode("utf-8", "replace").splitlines()
    if _PROVED in lines:
        return ""
    if done.returncode < 0:
        return f"its self-test ended with signal {-done.returncode}"
    return next((line.strip() for line in lines if line.strip()), f"its self-test ended with {done.returncode}")[:200]


def _tree(board: ExactBoard, qemu: Qemu) -> bytes:
    """Return QEMU's own device tree for this machine, with the nodes of the model."""
    assert board.nic.model is not None
    machine, *more = machine_arguments(board.machine)
    # QEMU first writes to another file of this folder, so this cannot be a file in memory.
    with TemporaryDirectory(prefix="pinet-") as folder:
        file = Path(folder) / "qemu.dtb"
        argv = [*qemu.command, "-machine", f"{machine},dumpdtb={file}", *more]
        output([*argv, "-nodefaults", "-no-user-config", "-display", "none"], SELFTEST_S, qemu.environment)
        own = read_device_tree(file.read_bytes())
    added = board.nic.model.nodes(own)
    return write_device_tree({**own, **{path: {**own.get(path, {}), **node} for path, node in added.items()}})
