"""What one boot of an exact board measured: fixed amounts of traffic in virtual time, and instructions by function.

An exact board is a virtual machine whose clock counts instructions (QEMU's ``-icount``), with both ends of the link
inside it. Two boots of the same build give equal values to the last digit. pydantic writes them as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from pytest_pinet.model.quantities import GROWTH_FORM, Growth, parse_text
from pytest_pinet.model.traffic import Direction

# The word of limits on instructions. Only exact gates count these.
INSTRUCTIONS = "instructions"
# Instructions outside of all functions of the kernel: the traffic program, and code at unknown addresses.
USER, UNKNOWN = "[user]", "[unknown]"
# The size of a kernel's pages that ids do not name.
USUAL_PAGES_KIB = 4
# Traffic of a window that is an event.
LINK, REPLUG, DOWN_UP = "link", "replug", "down-up"
# Traffic of windows in which frames come one by one. FAULT is followed by the name of a fault.
FRAME, VLAN, MULTICAST, FAULT = "frame", "vlan", "multicast", "fault-"
# Traffic of windows in which several frames come at once.
BATCH = "batch"
_ONE_BY_ONE = (f"{FRAME}-", f"{VLAN}-", f"{MULTICAST}-", FAULT)


def is_one_by_one(window: str) -> bool:
    """Return whether frames come one by one in the window with this name. Then a driver has one way to handle each."""
    return window.startswith(_ONE_BY_ONE)


def is_event(window: str) -> bool:
    """Return whether the window with this name is the time from an event to the first answer."""
    return window.startswith((f"{LINK}-", f"{REPLUG}-", f"{DOWN_UP}-"))


@dataclass(frozen=True, order=True)
class Function:
    """A function of the kernel. ``module`` is the name of its module; empty for the kernel image itself.

    Two pseudo-functions have the module ``""``: USER is the traffic program in the guest, UNKNOWN is code of the kernel
    to which /proc/kallsyms has no name. Equal names in one module (static functions) are one value, their sum.
    """

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} [{self.module}]" if self.module else self.name


_BY_MODULE = TypeAdapter(dict[str, dict[str, int]])


def _by_module(counts: Mapping[Function, int]) -> dict[str, dict[str, int]]:
    """Return the JSON form of counts: by module (empty: the kernel image) and name."""
    found: dict[str, dict[str, int]] = {}
    for function, count in sorted(counts.items()):
        found.setdefault(function.module, {})[function.name] = count
    return found


def _by_function(written: object) -> dict[Function, int]:
    by_module = _BY_MODULE.validate_python(written)
    return {Function(module, name): count for module, own in by_module.items() for name, count in own.items()}


FunctionCounts = Annotated[Mapping[Function, int], PlainValidator(_by_function), PlainSerializer(_by_module)]


class Comparison(StrEnum):
    """How a function is compared. CHANGED and DRIVER functions are compared exactly."""

    CHANGED = "changed module"
    DRIVER = "driver under test"
    SHIFTING = "shifts with any binary"
    OTHER = "other"


@dataclass(frozen=True)
class FunctionChange:
    """A function that changed: its instructions in both builds, and how it was compared.

    ``module`` is empty for the kernel image. ``comparison`` is ``changed module``, ``driver under test``, ``shifts with
    any binary`` or ``other``. ``was`` is the name and module in A if another one; ``missed`` is the limit that the
    function misses; ``source`` is file and line in the tree of the build. Empty if there is none. ``same_code``: both
    builds are known to have the same code of this function, which they only run more or less often.
    """

    name: str
    module: str
    a: float
    b: float
    comparison: Comparison
    was: str = ""
    missed: str = ""
    source: str = ""
    same_code: bool = False

    @property
    def function(self) -> Function:
        """The function in B. Its text is the name as the kernel prints it: ``gem_rx [macb]``."""
        return Function(self.module, self.name)

    @property
    def change(self) -> float:
        """The change in instructions for each packet."""
        return self.b - self.a

    @property
    def text(self) -> str:
        """The change in words: ``gem_rx [macb] 151.00 -> 155.00``."""
        was = f"{self.was} -> " if self.was else ""
        return f"{was}{self.function} {self.a:.2f} -> {self.b:.2f}"


@dataclass(frozen=True)
class ExactWindow:
    """One fixed amount of traffic, from its first packet to its last.

    ``traffic`` is ``frame`` (frames one by one), ``vlan`` (the same in a VLAN), ``fault-NAME`` (the same while the NIC
    loses frames in a certain way, or gets broken ones), ``multicast`` (frames one by one, each between joining and
    leaving a group), ``batch`` (32 frames at once), ``pktgen`` (frames at full load; ``sender``, our own sender, where
    the kernel has no pktgen), ``tcp``, ``request`` (a request and its answer, one after the other), ``bulk`` (the same
    with many octets), or an event: ``link`` (the link is switched on again), ``replug`` (the NIC is plugged in again)
    or ``down-up`` (the NIC is closed and opened again), with one ping that is sent until it is answered. ``direction``
    is that of the device under test. ``octets`` are the octets of one frame without the frame check sequence, of all
    payload for tcp, and of one request and its answer for request, bulk and events. ``packets`` are the frames that
    arrived (transmit, and faults: that were sent), for tcp the full segments (1448 octets) that the payload needs,
    whatever the offloads make of it, for request, bulk and events the number of answers.

    ``virtual_ns`` is virtual time: for frames one by one and batch, the time of all instructions; for request and bulk,
    the time between requests and their answers; for an event, the time from the event to the answer. ``instructions``
    are all instructions that the guest executed, without idle time (for all but pktgen, sender and tcp also without the
    traffic program); None without a plugin. ``functions`` has those functions that executed at least one instruction,
    and sums up to ``instructions``; it is empty without a plugin. ``pmu_instructions`` is the count of the guest's own
    performance counter in kernel mode, None where the machine has no counter.
    """

    traffic: str
    direction: Direction
    octets: int
    packets: int
    virtual_ns: int
    instructions: int | None = None
    functions: FunctionCounts = field(default_factory=dict)
    pmu_instructions: int | None = None

    @property
    def name(self) -> str:
        """The name of this window, unique in a boot: ``frame-60-rx``, ``tcp-tx``, ``request-rx``."""
        size = f"-{self.octets}" if self.traffic in (FRAME, BATCH, "pktgen", "sender") else ""
        return f"{self.traffic}{size}-{self.direction}"

    @property
    def one_by_one(self) -> bool:
        """Whether the NIC was idle before each frame, so that its driver has one way to handle it."""
        return is_one_by_one(self.name)

    @property
    def is_timed(self) -> bool:
        """Whether the traffic has a time of its own. Else it is the time of the instructions: the program waits."""
        return not self.one_by_one and self.traffic != BATCH

    @property
    def is_event(self) -> bool:
        """Whether this is the time from an event to the first answer."""
        return is_event(self.name)

    @property
    def packets_per_second(self) -> float:
        """Packets (for requests: answers) in a virtual second."""
        return self.packets * 1e9 / self.virtual_ns

    @property
    def goodput_bps(self) -> float:
        """Octets (see the class) in a virtual second, in bit/s."""
        whole = self.octets if self.traffic == "tcp" else self.octets * self.packets
        return whole * 8e9 / self.virtual_ns


@dataclass(frozen=True)
class ExactIdentity:
    """What ran. Values of two boots are comparable if all is equal except what the build brings.

    ``board`` is the board's name, ``driver`` the driver of both NICs as the guest reports it, ``nic`` QEMU's device or
    the chip of a device model. ``driver_modules`` are the modules whose functions are the driver's (its own, its
    PHY's, and the drivers that it is built on), ``driver_functions`` is a regular expression that matches the
    begin of their names where they are built into the kernel.
    ``model`` is the hash of the NIC's device model (sources, compiler flags, device tree), empty if QEMU has the NIC.
    ``plugin_api`` is the version of QEMU's plugin interface, None without a plugin; ``no_functions`` is then the
    reason, one sentence. ``traffic`` is the hash of the traffic program. The build brings ``kernel`` (the release),
    ``banner`` (the whole version line), ``image`` (the hash of the kernel image), ``modules`` (the hashes of the loaded
    modules by name), and words of ``cmdline``. ``pages_kib`` is the size of the kernel's pages, which chooses the
    processor of the ``machine``: both builds must have the same.
    """

    board: str
    machine: str
    nic: str
    model: str
    driver: str
    driver_modules: tuple[str, ...]
    driver_functions: str
    qemu: str
    processors: int
    traffic: str
    plugin_api: int | None
    no_functions: str
    kernel: str
    banner: str
    image: str
    cmdline: str
    modules: Mapping[str, str]
    pages_kib: int = USUAL_PAGES_KIB


@dataclass(frozen=True)
class ExactBoot:
    """One boot of a build. The windows are in the order in which they ran; it is the same in all boots of a board."""

    identity: ExactIdentity
    windows: tuple[ExactWindow, ...]

    def window(self, name: str) -> ExactWindow | None:
        """Return the window with this name, or None."""
        return next((window for window in self.windows if window.name == name), None)


@dataclass(frozen=True)
class MadeExactBoot:
    """A boot, and the seconds that it took. ``cached``: it was made in an earlier run, and took none."""

    boot: ExactBoot
    seconds: float
    cached: bool = False


@dataclass(frozen=True)
class NotExact:
    """Two boots of the same build differ, so that the board is not exact on this machine.

    ``what`` names the first value that differs (``tcp-tx: instructions of gem_rx [macb]``), ``a`` and ``b`` are its
    values in both boots.
    """

    what: str
    a: str
    b: str

    def __str__(self) -> str:
        return f"{self.what} was {self.a} in one boot and {self.b} in another boot of the same build"


def first_difference(a: ExactBoot, b: ExactBoot) -> NotExact | None:
    """Return the first value that differs in two boots of the same build, or None if they are equal."""
    for name in (part.name for part in fields(ExactIdentity)):
        values = str(getattr(a.identity, name)), str(getattr(b.identity, name))
        if values[0] != values[1]:
            return NotExact(name, *values)
    names = [window.name for window in a.windows], [window.name for window in b.windows]
    if names[0] != names[1]:
        return NotExact("list of windows", " ".join(names[0]), " ".join(names[1]))
    for one, other in zip(a.windows, b.windows, strict=True):
        for name in ("octets", "packets", "virtual_ns", "instructions", "pmu_instructions"):
            values = str(getattr(one, name)), str(getattr(other, name))
            if values[0] != values[1]:
                return NotExact(f"{one.name}: {name}", *values)
        for function in sorted({*one.functions, *other.functions}):
            counts = one.functions.get(function, 0), other.functions.get(function, 0)
            if counts[0] != counts[1]:
                return NotExact(f"{one.name}: instructions of {function}", str(counts[0]), str(counts[1]))
    return None


@dataclass(frozen=True)
class InstructionLimit:
    """How much the instructions for each packet may grow in an exact gate.

    ``function`` is a glob of names of functions, each of which has this limit; empty: the limit holds for the sum of
    all functions. ``source`` says where the limit was written.
    """

    bound: Growth
    source: str
    function: str = ""

    def __str__(self) -> str:
        return f"{self.bound} ({self.source})"


def parse_instructions(value: object, source: str) -> list[InstructionLimit]:
    """Limits on instructions: one growth for the sum, or a mapping from globs of functions to growths.

    Raises ValueError, one sentence that starts with the argument's name.
    """
    written = value if isinstance(value, Mapping) else {"": value}
    try:
        return [
            InstructionLimit(Growth.parse(parse_text(bound, GROWTH_FORM)), source, _function(name))
            for name, bound in written.items()
        ]
    except ValueError as error:
        raise ValueError(f"{INSTRUCTIONS}: {error}") from None


def parse_written_instructions(text: str, source: str) -> list[InstructionLimit]:
    """Limits of the command line: ``GROWTH``, or ``FUNCTION=GROWTH``. Raises ValueError."""
    function, equals, growth = text.rpartition("=")
    return parse_instructions({function.strip(): growth.strip()} if equals else growth.strip(), source)


def _function(name: object) -> str:
    if not isinstance(name, str):
        raise ValueError(f"{name!r} is no name of a function; expected a name or glob such as 'gem_rx' or 'gem_*'")
    return name
