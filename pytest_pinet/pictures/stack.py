"""Nodes to the left and right of a column of switches: what is to be drawn, and where it was put."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_pinet.model.lab import Interface, Node, Uplink
from pytest_pinet.pictures.drawing import Rect, Shape

ROW = 30.0
# The head of a node or panel, with its name.
HEAD = 36.0
FOOT_LINE = 16.0
_GAP = 14.0
_COMPACT_GAP = 4.0


@dataclass(frozen=True)
class Row:
    """An interface of a node and the number of the panel that its cable leads to; ``height`` in pixels."""

    interface: Interface
    panel: int
    height: float = ROW
    under_test: bool = False


@dataclass(frozen=True)
class Seat:
    """A node beside a panel. One that has seats at several panels is drawn as one that reaches from the first to last.

    ``foot`` stands below its rows; ``compact``: without head and foot, for one row that says it all.
    """

    node: Node
    rows: tuple[Row, ...]
    foot: str = ""
    compact: bool = False

    @property
    def height(self) -> float:
        if self.compact:
            return sum(row.height for row in self.rows)
        return HEAD + sum(row.height for row in self.rows) + (FOOT_LINE if self.foot else 0) + 4


@dataclass(frozen=True)
class Panel:
    """A switch, or a group of its ports, and who stands beside it; ``kind`` is its class in the style sheet."""

    title: str
    subtitle: str
    left: tuple[Seat, ...]
    right: tuple[Seat, ...]
    kind: str = "switch"
    foot: tuple[str, ...] = ()

    def side(self, right: bool) -> tuple[Seat, ...]:
        return self.right if right else self.left

    @property
    def compact(self) -> bool:
        return any(seat.compact for seat in (*self.left, *self.right))

    @property
    def above(self) -> float:
        """The room for its own name above seats that have no head."""
        return HEAD if self.compact else 0.0

    @property
    def gap(self) -> float:
        return _COMPACT_GAP if self.compact else _GAP

    def height(self, right: bool) -> float:
        """Of all seats of one side."""
        seats = self.side(right)
        return sum(seat.height for seat in seats) + self.gap * max(len(seats) - 1, 0)


@dataclass(frozen=True)
class Trunk:
    """An uplink between two panels."""

    upper: int
    lower: int
    uplink: Uplink

    @property
    def passes(self) -> bool:
        """Whether other panels lie in between."""
        return self.lower - self.upper > 1


@dataclass(frozen=True)
class Plug:
    """Where a cable ends in a panel: the inner edge of the port's label; ``right``: at the panel's right side."""

    x: float
    y: float
    height: float
    right: bool


@dataclass(frozen=True)
class Stack:
    """Everything in its place: ``shapes``, and ``labels`` that stand above whatever else is drawn.

    ``panels`` and ``plugs`` (by interface) are for what is drawn into the panels, ``nodes`` go by their names.
    """

    rect: Rect
    panels: tuple[Rect, ...]
    nodes: Mapping[str, Rect]
    plugs: Mapping[Interface, Plug]
    shapes: Sequence[Shape]
    labels: Sequence[Shape]
