"""The record of an exact comparison: one window of traffic, counted to the instruction with both builds.

Instructions are counted for each packet (for requests: for each answer).
"""

from __future__ import annotations

from pytest_pinet.model.exact import FunctionChange
from pytest_pinet.model.record.base import Record


class ExactSideRecord(Record):
    """One build: packets, virtual time, and all instructions for each packet (null: not counted).

    ``variation`` is the number of the meaningless change of the boot that has these values; 0 is none.
    """

    variation: int
    packets: int
    virtual_ns: int
    packets_per_second: float
    instructions: float | None


class ExactChangeRecord(Record):
    """One window of an exact board. Each value repeats to the last digit on every machine with this QEMU.

    ``unit`` is ``packet`` or ``answer``. ``modules`` are the modules that the build changes; an empty name is the
    kernel image. ``limit`` is the limit on the sum of all instructions in words; ``shift`` is the part of their change
    that every other binary has, too, and which is not judged. ``functions`` are the functions that changed most, the
    most telling first. ``more`` is the number of all others that changed, ``more_change`` their sum. ``no_functions``
    is the reason why functions were not counted; empty if they were.
    """

    nic: str
    device: str
    machine: str
    qemu: str
    processors: int
    unit: str
    octets: int
    a: ExactSideRecord
    b: ExactSideRecord
    modules: tuple[str, ...]
    limit: str
    shift: float
    functions: tuple[FunctionChange, ...]
    more: int
    more_change: float
    no_functions: str

    @property
    def change_of_sum(self) -> float | None:
        """The change of all instructions for each packet; None if they were not counted."""
        before, after = self.a.instructions, self.b.instructions
        return None if before is None or after is None else after - before
