"""Nodes to the left and right of a column of switches, with the cables in between.

A node stands beside the panel that its cables lead to, so that they are straight. A cable to another panel, and an
uplink that passes panels by, goes through a lane of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_pinet.model.lab import Interface
from pytest_pinet.pictures.drawing import NORMAL, SMALL, STRONG, Box, Label, Line, Rect, Shape, text_width
from pytest_pinet.pictures.stack import FOOT_LINE, HEAD, Panel, Plug, Row, Seat, Stack, Trunk
from pytest_pinet.pictures.stack_sizes import FOREIGN, LANE, PILL_ROW, foreign, gap, panel_rects, row_texts, sizes
from pytest_pinet.pictures.words import speed, uplink


def stack(panels: Sequence[Panel], trunks: Sequence[Trunk], top: float, middle: float, centered: bool) -> Stack:
    """Put the panels under each other from ``top`` on, with at least ``middle`` pixels between their ports.

    ``centered``: who has less beside a panel stands at the middle of its height.
    """
    stacking = _Stacking(panels, trunks, top, middle, centered)
    for index in range(len(panels)):
        stacking.panel(index)
    for index, trunk in enumerate(trunks):
        stacking.trunk(index, trunk)
    return stacking.result()


class _Stacking:
    def __init__(
        self, panels: Sequence[Panel], trunks: Sequence[Trunk], top: float, middle: float, centered: bool
    ) -> None:
        self._panels = panels
        self._trunks = trunks
        self._centered = centered
        self._sizes = sizes(panels, trunks, middle)
        self._rects = panel_rects(panels, trunks, self._sizes, top)
        self._lanes = [0, 0]
        self._shapes: list[Shape] = []
        self._labels: list[Shape] = []
        self._plugs: dict[Interface, Plug] = {}
        self._nodes: dict[str, Rect] = {}

    def result(self) -> Stack:
        panels = [Box(rect, panel.kind) for rect, panel in zip(self._rects, self._panels, strict=True)]
        nodes = [Box(rect, "node", name) for name, rect in self._nodes.items()]
        bottom = max(rect.bottom for rect in (*self._rects, *self._nodes.values()))
        area = Rect(0, self._rects[0].y, self._sizes.width, bottom - self._rects[0].y)
        shapes = [*panels, *nodes, *self._shapes]
        return Stack(area, tuple(self._rects), self._nodes, self._plugs, shapes, self._labels)

    def panel(self, index: int) -> None:
        panel, rect = self._panels[index], self._rects[index]
        center = rect.x + rect.width / 2
        # Arrows may pass behind the name of a group.
        halo = "" if panel.kind == "switch" else " halo"
        self._labels.append(Label(center, rect.y + 18, panel.title, f"name{halo}", STRONG, "middle"))
        self._labels.append(Label(center, rect.y + 33, panel.subtitle, f"muted{halo}", SMALL, "middle"))
        for number, line in enumerate(reversed(panel.foot)):
            self._labels.append(Label(center, rect.bottom - 10 - number * FOOT_LINE, line, "muted", SMALL, "middle"))
        highest = max(panel.height(right) for right in (False, True))
        for right in (False, True):
            y = rect.y + panel.above + ((highest - panel.height(right)) / 2 if self._centered else 0)
            for seat in panel.side(right):
                self._seat(index, seat, Rect(self._sizes.node_x(right), y, self._sizes.node, seat.height), right)
                y += seat.height + panel.gap

    def _seat(self, index: int, seat: Seat, area: Rect, right: bool) -> None:
        name = seat.node.name
        first = self._nodes.get(name)
        if first is None and not seat.compact:
            self._labels.append(Label(area.x + 12, area.y + 21, name, "name", STRONG))
            self._labels.append(Label(area.right - 12, area.y + 21, seat.node.board.name, "muted", SMALL, "end"))
        top = area.y if first is None else first.y
        self._nodes[name] = Rect(area.x, top, area.width, area.bottom - top)
        y = area.y + (0 if seat.compact else HEAD - 4)
        for row in seat.rows:
            self._row(index, row, row_texts(seat, row), Rect(area.x, y, area.width, row.height), right)
            y += row.height
        if seat.foot:
            self._labels.append(Label(area.x + 12, y + 12, seat.foot, "muted", SMALL))

    def _row(self, index: int, row: Row, texts: tuple[str, str], area: Rect, right: bool) -> None:
        interface, y = row.interface, area.y + area.height / 2
        if row.under_test:
            self._shapes.append(Box(Rect(area.x + 3, y - 13, area.width - 6, 26), "test", radius=4))
        self._labels.append(Label(area.x + 12, y + 4, texts[0], "ink", NORMAL))
        self._labels.append(Label(area.right - 12, y + 4, texts[1], "muted", SMALL, "end"))
        # Left nodes look to the right, and the other way round.
        out, anchor, edge = (-1, "end", area.x) if right else (1, "start", area.right)
        rate = speed(interface.speed_mbps)
        self._labels.append(Label(edge + 7 * out, y - 6, rate, "muted", SMALL, anchor))
        panel = self._rects[row.panel]
        port = panel.right if right else panel.x
        slot = y if row.panel == index else self._slot(row, right)
        points = [(edge, y), (port, slot)]
        if row.panel != index:
            self._lanes[right] += 1
            lane = edge + (self._sizes.speed + LANE * (self._lanes[right] - 1)) * out
            points[1:1] = [(lane, y), (lane, slot)]
        self._shapes.append(
            Line(tuple(points), "cable", _thickness(interface.speed_mbps), f"{interface} to {interface.port}, {rate}")
        )
        self._shapes.append(Box(Rect(port - 4, slot - 4, 8, 8), "port", str(interface.port), 1))
        self._labels.append(Label(port + 10 * out, slot + 4, interface.port.port, "ink", SMALL, anchor))
        self._plugs[interface] = Plug(port + self._sizes.port * out, slot, row.height, right)

    def _slot(self, row: Row, right: bool) -> float:
        """Where a cable from beside another panel is plugged in: below those of its own nodes."""
        panel, rect = self._panels[row.panel], self._rects[row.panel]
        position = foreign(self._panels, row.panel, right).index(row.interface)
        return rect.y + max(panel.height(right), HEAD) + 8 + FOREIGN * (position + 0.5)

    def trunk(self, index: int, trunk: Trunk) -> None:
        upper, lower = self._rects[trunk.upper], self._rects[trunk.lower]
        x = upper.x + upper.width * (index + 1) / (len(self._trunks) + 1)
        begin = self._gap_y(trunk.upper, trunk, True)
        points = [(x, upper.bottom), (x, lower.y)]
        if trunk.passes:
            lane = upper.right + LANE * sum(other.passes for other in self._trunks[: index + 1])
            arrive = self._gap_y(trunk.lower - 1, trunk, False)
            points[1:1] = [(x, begin), (lane, begin), (lane, arrive), (x, arrive)]
        text = uplink(trunk.uplink)
        self._shapes.append(Line(tuple(points), "cable", _thickness(trunk.uplink.speed_mbps), text))
        half = text_width(text, SMALL) / 2 + 8
        center = min(max(x, upper.x + half), upper.right - half)
        self._labels.append(Box(Rect(center - half, begin - 10, 2 * half, 20), "pill", trunk.uplink.name, 10))
        self._labels.append(Label(center, begin + 4, text, "ink", SMALL, "middle"))

    def _gap_y(self, index: int, trunk: Trunk, begins: bool) -> float:
        return self._rects[index].bottom + 10 + PILL_ROW * (gap(self._trunks, index).index((trunk, begins)) + 0.5)


def _thickness(mbps: int) -> float:
    """Of a cable's line: faster is wider."""
    return 1.2 if mbps < 1000 else 2.0 if mbps < 2500 else 3.0 if mbps < 10_000 else 4.0
