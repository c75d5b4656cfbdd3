"""Measures builds on an exact board: the known-good build with proof that the board is exact, any build from the cache.

bench = ExactBench(exact_boards()["e1000e"])
kernel = stock_build(print)
a = bench.known_good(bench.payload(kernel), print)
b = bench.measured(bench.payload(kernel, load_build("e1000e.ko")), print)"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_pinet.builds.load import load_build
from pytest_pinet.config.labfile import load
from pytest_pinet.emulated.image import KERNEL, kernel_package
from pytest_pinet.errors import CapabilityError, ConfigError, LabError
from pytest_pinet.exact.board import NICS, PARTS, ExactBoard, ExactMachine, arguments
from pytest_pinet.exact.boot import boot, boot_twice
from pytest_pinet.exact.device_models import Model, model_for
from pytest_pinet.exact.payload import OPTIONAL, Payload, make_payload
from pytest_pinet.exact.qemu import find_qemu, plugin_for
from pytest_pinet.exact.store import boot_once, key_of, known_boot
from pytest_pinet.exact.traffic import amounts_of, events_of
from pytest_pinet.model.build import Build
from pytest_pinet.model.exact import ExactBoot, MadeExactBoot, first_difference
from pytest_pinet.model.lab import EXACT, Node

Say = Callable[[str], None]
_ORDINARY = (
    "the exact gate cannot judge here; the ordinary gate can, with several boots: pinet gate BUILD --lab emulated "
    "(e1000e, virtio-net), or --lab FILE for a lab of boards with this NIC"
)


def stock_build(report: Say, name: str = KERNEL) -> Build:
    """Return the build of a Debian kernel package, the newest of the release by default. Raises LabError."""
    return load_build(str(kernel_package(name, report)))


def stock_release(report: Say) -> str:
    """Return the release of the newest Debian kernel, which is in the name of its package. Raises LabError."""
    return kernel_package(KERNEL, report).name.removeprefix("linux-image-").partition("_")[0]


class ExactBench:
    """One exact board, with the QEMU and the plugin that boot it on this machine.

    Each payload has its own machine: the pages of its kernel choose the processor.
    """

    def __init__(self, board: ExactBoard) -> None:
        """Find QEMU and build the plugin. Raises LabError, CapabilityError."""
        self.board = board
        self.qemu = find_qemu(board)
        self.plugin = plugin_for(self.qemu, board.machine.processors)
        self._models: dict[ExactMachine, Model | None] = {}
        if board.machine.slot and self.plugin.path is None:
            # The plugin stops the guest during an event.
            raise CapabilityError(f"the exact board {board.name} cannot run: {self.plugin.missing}")

    def payload(self, base: Build, build: Build | None = None, optional: Collection[str] = OPTIONAL) -> Payload:
        """Return what the board boots for a build, after all checks that need no boot. See ``make_payload``."""
        every = amounts_of(self.board, self.qemu.version)
        # The plugin stops the guest while the host does something.
        amounts = [amount for amount in every if self.plugin.path is not None or not events_of(amount)]
        payload = make_payload(self.board, base, build, amounts=amounts, optional=optional)
        # Without its model, a board is skipped before any boot.
        self.model(payload)
        return payload

    def model(self, payload: Payload) -> Model | None:
        """Return the model of the board's NIC in the machine of a payload; None if QEMU itself has the NIC."""
        machine = payload.board.machine
        if machine not in self._models:
            self._models[machine] = model_for(payload.board, self.qemu)
        return self._models[machine]

    def is_proved(self, payload: Payload) -> bool:
        """Return whether ``known_good`` takes the values of this build from the cache."""
        return known_boot(self._key("proved", payload)) is not None

    def is_measured(self, payload: Payload) -> bool:
        """Return whether ``measured`` takes the values of this build from the cache."""
        return self.is_proved(payload) or known_boot(self._key("once", payload)) is not None

    def known_good(self, payload: Payload, say: Say, stops: Sequence[threading.Event] = ()) -> MadeExactBoot:
        """Return what the known-good build measures. It is booted twice at once, and must give equal values.

        The proof is in the cache together with the values, so each machine boots it twice only once for all that the
        values depend on. ``say`` is called if it boots. Raises BuildError, and LabError also if the values differ, or
        if one of ``stops`` is set.
        """

        def proved() -> ExactBoot:
            say(f"{self.board.name}: booting {payload.build} twice, to prove that its values repeat")
            first, second = boot_twice(payload, self.qemu, self.plugin, stops, self.model(payload))
            if (difference := first_difference(first, second)) is not None:
                raise LabError(
                    f"the exact board {self.board.name} is not exact on this machine: {difference}", _ORDINARY
                )
            return first

        return boot_once(self._key("proved", payload), proved, say)

    def measured(self, payload: Payload, say: Say, stops: Sequence[threading.Event] = ()) -> MadeExactBoot:
        """Return what a build measures in one boot. ``say`` is called if it boots. Raises BuildError, LabError.

        The values of a known-good build count also here.
        """
        if (known := known_boot(self._key("proved", payload))) is not None:
            return MadeExactBoot(known, 0.0, cached=True)

        def booted() -> ExactBoot:
            say(f"{self.board.name}: booting {payload.build}")
            return boot(payload, self.qemu, self.plugin, stops=stops, model=self.model(payload))

        return boot_once(self._key("once", payload), booted, say)

    def _key(self, kind: str, payload: Payload) -> str:
        argv = arguments(payload.board, Path("kernel"), Path("initramfs"), payload.cmdline, 0)
        model = self.model(payload)
        # The initramfs holds the modules, the traffic program and its script.
        initramfs = hashlib.sha256(payload.initramfs).hexdigest()
        of_qemu = self.qemu.sha256, self.plugin.sha256, model.sha256 if model is not None else ""
        # A kept boot says which functions are the driver's.
        nic = *self.board.nic.path, self.board.nic.functions
        return key_of(kind, self.board.name, *argv, payload.image.sha256, initramfs, *of_qemu, *nic)


DEFAULT = "exact"


def exact_boards(lab: str = DEFAULT) -> Mapping[str, ExactBoard]:
    """Return the exact boards of a lab file, or of a packaged lab, by the name of their node. Raises ConfigError."""
    found = load(lab, in_use=False)
    boards = {node.name: _board(node) for node in found.nodes.values() if node.clock == EXACT}
    if not boards:
        raise ConfigError(
            f"{found.file} has no exact board, which is a node with 'clock: {EXACT}'; without a lab file, the boards "
            f"of the packaged lab '{DEFAULT}' are used"
        )
    return boards


def _board(node: Node) -> ExactBoard:
    """Return the board of a node, which the reader of lab files has checked. Raises ConfigError for its parts."""
    first, *others = node.interfaces
    if others:
        raise ConfigError(
            f"node '{node.name}' is an exact board (clock: {EXACT}); expected one interface, whose NIC QEMU connects "
            "with a second one of its kind",
            others[0].where,
        )
    for machine, nics in PARTS.items():
        if machine.name == node.machine and first.nic.name in nics and NICS[first.nic.name].driver == first.nic.driver:
            return ExactBoard(node.name, _with_cores(machine, node), NICS[first.nic.name])
    ways = "; ".join(f"{machine.name} with {', '.join(nics)}" for machine, nics in PARTS.items())
    raise ConfigError(
        f"node '{node.name}': no exact board is {node.machine} with NIC {first.nic.name} and driver "
        f"{first.nic.driver}; accepted: {ways}",
        node.where,
    )


def _with_cores(machine: ExactMachine, node: Node) -> ExactMachine:
    if (cores := node.board.cores) not in (1, 2):
        raise ConfigError(
            f"board '{node.board.name}' of node '{node.name}' has {cores} cores; an exact board has 1 or 2", node.where
        )
    return replace(machine, processors=cores)
