"""How wide a stack must be for the text in it, and how high each of its panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_pinet.model.lab import Interface
from pytest_pinet.pictures.drawing import NORMAL, SMALL, STRONG, Rect, text_width
from pytest_pinet.pictures.stack import FOOT_LINE, HEAD, ROW, Panel, Row, Seat, Trunk
from pytest_pinet.pictures.words import nic, speed, uplink

MARGIN = 24.0
LANE = 8.0
FOREIGN = 22.0
PILL_ROW = 28.0
_PANEL_GAP = 20.0
_LEAST_NODE = 180.0


def row_texts(seat: Seat, row: Row) -> tuple[str, str]:
    """What a row says of an interface: its name, and the rest."""
    rest = f"{nic(row.interface)}, {row.interface.device}"
    if not seat.compact:
        return row.interface.name, rest
    return str(row.interface), f"{seat.node.board.name}, {rest}" + (", under test" if row.under_test else "")


@dataclass(frozen=True)
class Sizes:
    """Widths of what stands side by side, and the left edges of the three columns."""

    node: float
    port: float
    speed: float
    panel: float
    panel_x: float
    right_x: float

    def node_x(self, right: bool) -> float:
        return self.right_x if right else MARGIN

    @property
    def width(self) -> float:
        return self.right_x + self.node + MARGIN


def foreign(panels: Sequence[Panel], index: int, right: bool) -> list[Interface]:
    """What is plugged into a panel from nodes of one side that stand beside other panels."""
    return [
        row.interface
        for number, panel in enumerate(panels)
        for seat in panel.side(right)
        for row in seat.rows
        if row.panel == index != number
    ]


def sizes(panels: Sequence[Panel], trunks: Sequence[Trunk], middle: float) -> Sizes:
    """The least that holds all text, with ``middle`` pixels between the ports of a panel."""
    seats = [seat for panel in panels for seat in (*panel.left, *panel.right)]
    rows = [row.interface for seat in seats for row in seat.rows]
    texts_of_rows = [row_texts(seat, row) for seat in seats for row in seat.rows]
    node = 24 + max(
        _LEAST_NODE,
        *(text_width(s.node.name, STRONG) + 16 + text_width(s.node.board.name, SMALL) for s in seats),
        *(text_width(name, NORMAL) + 16 + text_width(rest, SMALL) for name, rest in texts_of_rows),
        *(text_width(seat.foot, SMALL) for seat in seats),
    )
    port = 16 + max(text_width(interface.port.port, SMALL) for interface in rows)
    texts = [(panel.title, STRONG) for panel in panels]
    texts += [(text, SMALL) for panel in panels for text in (panel.subtitle, *panel.foot)]
    texts += [(f"  {uplink(trunk.uplink)}  ", SMALL) for trunk in trunks]
    panel_width = max(2 * port + middle, *(text_width(*text) + 24 for text in texts))
    cable = 14 + max(text_width(speed(interface.speed_mbps), SMALL) for interface in rows)
    lanes = [sum(len(foreign(panels, index, right)) for index in range(len(panels))) for right in (False, True)]
    panel_x = MARGIN + node + cable + LANE * lanes[0] + LANE
    around = sum(trunk.passes for trunk in trunks)
    right_x = panel_x + panel_width + cable + LANE * (lanes[1] + around + 1)
    return Sizes(node, port, cable, panel_width, panel_x, right_x)


def gap(trunks: Sequence[Trunk], index: int) -> list[tuple[Trunk, bool]]:
    """The trunks that need a row of their own below a panel, and whether it is the one where they begin."""
    starting = [(trunk, True) for trunk in trunks if trunk.upper == index]
    return starting + [(trunk, False) for trunk in trunks if trunk.lower == index + 1 and trunk.passes]


def panel_rects(panels: Sequence[Panel], trunks: Sequence[Trunk], wide: Sizes, top: float) -> list[Rect]:
    """The panels under each other."""
    rects = []
    y = top
    for index, panel in enumerate(panels):
        inner = HEAD + ROW
        for right in (False, True):
            slots = len(foreign(panels, index, right))
            below = 8 + FOREIGN * slots if slots else 0
            inner = max(inner, panel.above + max(panel.height(right), HEAD if slots else 0) + below)
        foot = len(panel.foot) * FOOT_LINE + (10 if panel.foot else 0)
        rects.append(Rect(wide.panel_x, y, wide.panel, inner + foot))
        y += inner + foot + _PANEL_GAP + PILL_ROW * len(gap(trunks, index))
    return rects
