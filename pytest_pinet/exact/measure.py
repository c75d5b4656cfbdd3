"""Measures builds on an exact board: the known-good build with proof that the board is exact, any build from the cache.

board = BOARDS["e1000e"]
a = known_good(board, stock_build(KERNEL, print))          # ExactBoot, or NotExact
b = measured(board, stock_build(KERNEL, print), load_build("e1000e.ko"))
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from pytest_pinet.builds.load import load_build
from pytest_pinet.emulated.image import KERNEL, kernel_package
from pytest_pinet.exact.board import ExactBoard, arguments
from pytest_pinet.exact.boot import boot, boot_twice
from pytest_pinet.exact.payload import Payload, make_payload
from pytest_pinet.exact.qemu import Plugin, Qemu, build_plugin, find_qemu
from pytest_pinet.exact.store import boot_once, key_of
from pytest_pinet.model.build import Build
from pytest_pinet.model.exact import ExactBoot, NotExact, first_difference


def stock_build(report: Callable[[str], None], name: str = KERNEL) -> Build:
    """Return the build of a Debian kernel package, the newest of the release by default. Raises LabError."""
    return load_build(str(kernel_package(name, report)))


def _quiet(_: str) -> None:
    pass


class _Differs(Exception):
    def __init__(self, difference: NotExact) -> None:
        super().__init__(str(difference))
        self.difference = difference


def known_good(board: ExactBoard, base: Build, say: Callable[[str], None] = _quiet) -> ExactBoot | NotExact:
    """Return what the known-good build measures. It is booted twice at once, and must give equal values.

    The proof is in the cache together with the values, so each machine boots it twice only once for all that the values
    depend on. ``say`` is called if it boots. Raises BuildError, LabError.
    """
    payload, qemu, plugin = _prepared(board, base, None)

    def proved() -> ExactBoot:
        say(f"{board.name}: booting {base} twice, to prove that its values repeat")
        first, second = boot_twice(board, payload, qemu, plugin)
        if (difference := first_difference(first, second)) is not None:
            raise _Differs(difference)
        return first

    try:
        return boot_once(_key("proved", board, payload, qemu, plugin), proved)
    except _Differs as differs:
        return differs.difference


def measured(
    board: ExactBoard, base: Build, build: Build | None, fresh: bool = False, say: Callable[[str], None] = _quiet
) -> ExactBoot:
    """Return what ``build`` measures; None is ``base``. A build of modules only replaces modules of ``base``.

    ``fresh`` boots it even if the cache has its values. ``say`` is called if it boots. Raises BuildError, LabError.
    """
    payload, qemu, plugin = _prepared(board, base, build)

    def booted() -> ExactBoot:
        say(f"{board.name}: booting {build or base}")
        return boot(board, payload, qemu, plugin)

    return booted() if fresh else boot_once(_key("once", board, payload, qemu, plugin), booted)


def _prepared(board: ExactBoard, base: Build, build: Build | None) -> tuple[Payload, Qemu, Plugin]:
    qemu = find_qemu(board)
    return make_payload(board, base, build), qemu, build_plugin(qemu)


def _key(kind: str, board: ExactBoard, payload: Payload, qemu: Qemu, plugin: Plugin) -> str:
    argv = arguments(board, Path("kernel"), Path("initramfs"), payload.cmdline, 0)
    # The initramfs holds the modules, the traffic program and its script.
    initramfs = hashlib.sha256(payload.initramfs).hexdigest()
    return key_of(kind, board.name, *argv, payload.image_hash, initramfs, qemu.sha256, plugin.sha256)
