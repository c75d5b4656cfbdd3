"""Names boards and NICs by the catalogue. What the catalogue lacks gets an entry with what was found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

import yaml

from pytest_pinet.catalogue import load
from pytest_pinet.execution.names import nearest
from pytest_pinet.init.machine import Machine, NicFacts
from pytest_pinet.judge.hardware import is_model
from pytest_pinet.model.hardware import UNKNOWN_DRIVER, Board, Bus, FoundNic, Nic, attached_bus
from pytest_pinet.model.lab import ONBOARD

# The word for the machine that runs pytest, as a board and as a node.
RUNNER = "pc"
LAN = "lan"
_ALL_BUSES = (Bus.USB2, Bus.USB3, Bus.PCIE2X1, Bus.PCIE3X1)
_USB3_MBPS = 5000


@dataclass(frozen=True)
class TestedNic:
    """A NIC of a node as the lab file has it. ``is_named``: the lab file must say which NIC of the catalogue it is.

    ``speed_mbps`` is the speed of its link, if that is lower than the rated speed.
    """

    key: str
    nic: Nic
    found: FoundNic
    facts: NicFacts
    is_named: bool
    speed_mbps: int | None = None

    @property
    def drivers(self) -> tuple[str, ...]:
        """The driver for the lab file, if the catalogue names another one."""
        if self.found.driver is None or self.nic.driver in (self.found.driver, UNKNOWN_DRIVER):
            return ()
        return (self.found.driver,)


@dataclass
class FoundHardware:
    """The catalogue, and the entries for what it lacks. ``boards`` and ``nics`` go into the lab file."""

    boards: dict[str, Board] = field(default_factory=dict)
    nics: dict[str, Nic] = field(default_factory=dict)
    # Where each entry was found, as comments.
    sources: dict[str, str] = field(default_factory=dict)

    def place(self, node: str, machine: Machine, found: FoundNic, is_runner: bool) -> tuple[str, TestedNic]:
        """Return the name of a machine's board, and its NIC under test."""
        facts = machine.facts_of(found.device)
        board = _board_of(machine)
        if board is not None:
            if own := _own(board, machine, found):
                return board.name, TestedNic(ONBOARD, own, found, facts, is_named=False)
            nic = _of_catalogue(facts) or self._nic(node, found, facts, _bus(found))
            if attached_bus(board, nic) is None:
                board = replace(board, buses=(*board.buses, nic.bus))
                self._add_board(board, f"{board.title}: {node} has a NIC on {nic.bus}, which the catalogue lacks")
            key = "usb" if nic.bus in (Bus.USB2, Bus.USB3) else "pcie"
            return board.name, TestedNic(key, nic, found, facts, is_named=True)
        own_bus = Bus.SOC if is_runner or found.bus != "usb" else _bus(found)
        nic = _of_catalogue(facts) or self._nic(node, found, facts, own_bus)
        is_added = found.bus == "usb" and not found.is_own
        name = self._new_board(node, machine, None if is_added or nic.bus is not own_bus else nic.name, is_runner)
        key = LAN if is_runner else ONBOARD if self.boards[name].onboard == nic.name else "usb" if is_added else "pcie"
        return name, TestedNic(key, nic, found, facts, is_named=key != ONBOARD)

    def _nic(self, node: str, found: FoundNic, facts: NicFacts, bus: Bus) -> Nic:
        driver = found.driver or "unknown"
        chip = facts.chip_id or driver
        nic = Nic(
            name="",
            title=facts.product or f"{driver} NIC",
            chip=chip.replace(":", " ", 1),
            driver=driver,
            bus=bus,
            speeds_mbps=facts.speeds_mbps or ((facts.linked_mbps,) if facts.linked_mbps else ()),
            mtu_max=facts.mtu_max if facts.mtu_max is not None and 1500 <= facts.mtu_max <= 65535 else 1500,
        )
        number = "" if facts.chip_id is None else "-" + facts.chip_id.partition(":")[2].replace(":", "-")
        products = {product for one in load().nics.values() for product in one.products}
        name = self._free(f"{driver}{number}", nic, self.nics, {*load().nics, *products})
        self.nics[name] = replace(nic, name=name)
        self.sources.setdefault(name, f"{found.device} of {node}")
        return self.nics[name]

    def _new_board(self, node: str, machine: Machine, onboard: str | None, is_runner: bool) -> str:
        model = machine.board.model
        title = model or f"{machine.system or 'a machine'}, {machine.architecture}"
        board = Board(
            name="",
            title=title,
            clock_mhz=machine.clock_mhz or 1000,
            cores=machine.cores or 1,
            buses=_ALL_BUSES,
            onboard=onboard,
            model=None if is_runner else model,
        )
        wanted = RUNNER if is_runner else _word(model, "board") if model else "board"
        name = self._free(wanted, board, self.boards, set(load().boards))
        what = "the machine that runs pytest" if is_runner else f"{node}; its model is not in the catalogue"
        guessed = "" if machine.clock_mhz else "; the clock is a guess, because the kernel does not report it"
        self._add_board(replace(board, name=name), f"{what}{guessed}")
        return name

    def _add_board(self, board: Board, source: str) -> None:
        self.boards[board.name] = board
        self.sources.setdefault(board.name, source)

    @staticmethod
    def _free(
        wanted: str, entry: Board | Nic, taken: Mapping[str, Board] | Mapping[str, Nic], catalogue: set[str]
    ) -> str:
        """Return a name that is free, or that has an equal entry."""
        base = wanted if wanted not in catalogue else f"{wanted}-found"
        return next(name for name in _numbered(base) if taken.get(name) in (None, replace(entry, name=name)))


def _board_of(machine: Machine) -> Board | None:
    model = machine.board.model
    boards = load().boards.values() if model else ()
    return next((board for board in boards if board.model and is_model(str(model), board.model)), None)


def _own(board: Board, machine: Machine, found: FoundNic) -> Nic | None:
    """Return the board's own NIC if this is it."""
    if board.onboard is None:
        return None
    own = load().nics[board.onboard]
    # A device tree without the alias `ethernet0` names no NIC.
    unnamed = not any(nic.is_own for nic in machine.board.nics.values())
    return own if found.is_own or (unnamed and found.driver == own.driver) else None


def known_nic(machine: Machine, found: FoundNic) -> Nic | None:
    """Return the NIC of the catalogue that this is; None if the catalogue lacks it."""
    board = _board_of(machine)
    own = _own(board, machine, found) if board is not None else None
    return own or _of_catalogue(machine.facts_of(found.device))


def guess_board(text: str) -> str | None:
    """Return the board of the catalogue whose name is most similar to the name of a place."""
    boards = load().boards
    base = re.sub(r"[-_.]\w+$", "", text.lower())
    return base if base in boards else nearest(base, boards)


def _of_catalogue(facts: NicFacts) -> Nic | None:
    fits = [nic for nic in load().nics.values() if facts.chip_id is not None and facts.chip_id in nic.ids]
    return fits[0] if len(fits) == 1 else None


def _bus(found: FoundNic) -> Bus:
    """Return the bus of a NIC that is not the board's own, at the speed that it runs at now."""
    if found.bus == "usb":
        return Bus.USB3 if (found.usb_mbps or 0) >= _USB3_MBPS else Bus.USB2
    return Bus.PCIE3X1 if (found.pcie_gts or 0) >= 8 else Bus.PCIE2X1


def _word(text: str, kind: str) -> str:
    """Return a text as a name: ``Radxa ROCK 5B`` is ``radxa-rock-5b``, and the host ``123`` is ``pi-123``.

    YAML reads some names as numbers, dates or truth values. They get their ``kind`` in front.
    """
    word = re.sub(r"[^a-z0-9+]+", "-", text.lower()).strip("-+")[:40]
    return word if isinstance(yaml.safe_load(word), str) else f"{kind}-{word}".strip("-")


def node_name(machine: Machine, taken: set[str], is_runner: bool = False) -> str:
    """Return a free name for a node: the name of its host, without the domain."""
    base = RUNNER if is_runner else _word(machine.host.partition(".")[0], "pi") if machine.host else "pi"
    return next(name for name in _numbered(base) if name not in taken)


def _numbered(base: str) -> Iterator[str]:
    yield base
    for number in count(2):
        yield f"{base}-{number}"
