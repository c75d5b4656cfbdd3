"""Labs and combinations as SVG: well-formed, legible (nothing overlaps), an arrow for every flow."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from picture_labs import FIFTY, SWITCHES, lab_of, virtual_lab

from pytest_pinet.inventory import combination, entries, largest
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.topology import parse_topology
from pytest_pinet.model.traffic import Direction
from pytest_pinet.pictures.combination_svg import combination_drawing
from pytest_pinet.pictures.drawing import Arrow, Box, Drawing, Label, Line, Rect
from pytest_pinet.pictures.lab_svg import lab_drawing

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(params=["virtual", "several", "fifty"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    return (
        virtual_lab()
        if request.param == "virtual"
        else lab_of(tmp_path, {"several": SWITCHES, "fifty": FIFTY}[request.param])
    )


def all_drawings(lab: Lab) -> Iterator[Drawing]:
    yield lab_drawing(lab, lab.domains)
    small = [parse_topology(name) for name in ("pairs:2", "incast:3", "outcast:2", "mesh:3", "mesh:5")]
    for entry in entries(lab, [*largest(lab), *small]):
        if entry.combination is not None and not (entry.topology.startswith("mesh") and len(lab.nodes) == 50):
            for direction in entry.combination.topology.directions:
                yield combination_drawing(lab, entry.combination, direction, tuple(lab.domains))


def labels(drawing: Drawing) -> list[Label]:
    return [shape for shape in drawing.shapes if isinstance(shape, Label)]


def boxes(drawing: Drawing, *kinds: str) -> list[Box]:
    return [shape for shape in drawing.shapes if isinstance(shape, Box) and shape.kind in kinds]


def overlapping(rects: list[tuple[str, Rect]]) -> list[tuple[str, str]]:
    """Names of those that overlap; only neighbours in height are compared."""
    found = []
    rects = sorted(rects, key=lambda entry: entry[1].y)
    for index, (name, rect) in enumerate(rects):
        for other_name, other in rects[index + 1 :]:
            if other.y >= rect.bottom:
                break
            if rect.overlaps(other):
                found.append((name, other_name))
    return found


def test_nothing_overlaps(lab: Lab) -> None:
    for drawing in all_drawings(lab):
        sheet = Rect(0, 0, drawing.width, drawing.height)
        assert overlapping([(label.text, label.rect) for label in labels(drawing)]) == [], drawing.title
        assert overlapping([(box.name, box.rect) for box in boxes(drawing, "node")]) == [], drawing.title
        panels = [(box.kind, box.rect) for box in drawing.shapes if isinstance(box, Box) and is_panel(box)]
        nodes = [(box.name, box.rect) for box in boxes(drawing, "node")]
        assert overlapping([*panels, *nodes]) == [], drawing.title
        for label in labels(drawing):
            assert sheet.holds(label.rect), f"{drawing.title}: {label.text} lies outside"
            for name, rect in [*nodes, *panels]:
                if rect.overlaps(label.rect):
                    assert rect.holds(label.rect), f"{drawing.title}: {label.text} sticks out of {name}"


def is_panel(box: Box) -> bool:
    return box.kind == "switch" or box.kind.startswith("group")


def test_no_cable_runs_through_a_text_and_no_arrow_through_a_port(lab: Lab) -> None:
    for drawing in all_drawings(lab):
        # What stands on a pill hides what passes behind it, and a halo does the same.
        pills = [box.rect for box in boxes(drawing, "pill")]
        texts = [label for label in labels(drawing) if not any(pill.holds(label.rect) for pill in pills)]
        plain = [label for label in texts if "halo" not in label.kind]
        for shape in drawing.shapes:
            if isinstance(shape, Line):
                touched = [t.text for t in texts for leg in pairwise(shape.points) if on(leg).overlaps(t.rect)]
                assert touched == [], f"{drawing.title}: cable {shape.name} runs through {touched}"
            elif isinstance(shape, Arrow):
                spots = [Rect(x - 0.5, y - 0.5, 1, 1) for x, y in points_of(shape)]
                near = [
                    t
                    for t in plain
                    if min(s.y for s in spots) < t.rect.bottom and t.rect.y < max(s.bottom for s in spots)
                ]
                touched = [t.text for t in near if any(spot.overlaps(t.rect) for spot in spots)]
                assert touched == [], f"{drawing.title}: arrow {shape.name} runs through {touched}"


def on(leg: tuple[tuple[float, float], tuple[float, float]]) -> Rect:
    (x1, y1), (x2, y2) = leg
    return Rect(min(x1, x2) - 0.5, min(y1, y2) - 0.5, abs(x1 - x2) + 1, abs(y1 - y2) + 1)


def points_of(arrow: Arrow) -> list[tuple[float, float]]:
    (x1, y1), (x2, y2) = arrow.start, arrow.end
    bend = (x1, x2) if arrow.bend is None else (arrow.bend, arrow.bend)
    controls = ((x1, y1), (bend[0], y1), (bend[1], y2), (x2, y2))
    weights = [((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3) for t in (i / 12 for i in range(13))]
    return [
        (
            sum(w * x for w, (x, _) in zip(ws, controls, strict=True)),
            sum(w * y for w, (_, y) in zip(ws, controls, strict=True)),
        )
        for ws in weights
    ]


def test_files_are_well_formed_stand_alone_and_name_what_they_show(lab: Lab) -> None:
    for drawing in all_drawings(lab):
        text = drawing.svg()
        root = ElementTree.fromstring(text)
        assert root.tag == f"{SVG}svg"
        assert root.findtext(f"{SVG}title") == drawing.title
        assert root.find(f"{SVG}rect").get("class") == "paper", "a background, whatever the page's is"  # type: ignore[union-attr]
        assert "prefers-color-scheme:dark" in str(root.findtext(f"{SVG}style"))
        assert not re.search(r"(href|src|url\(|@import|<script)", text), "nothing is fetched"


def test_names_are_escaped(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, SWITCHES)
    root = ElementTree.fromstring(lab_drawing(lab, lab.domains).svg())
    assert '<a&"b">' in [text.text for text in root.iter(f"{SVG}text")]


def test_a_lab_shows_every_node_port_cable_uplink_and_domain(lab: Lab) -> None:
    drawing = lab_drawing(lab, lab.domains)
    texts = Counter(label.text for label in labels(drawing))
    for node in lab.nodes.values():
        assert texts[node.name] >= 1
    assert Counter(box.name for box in boxes(drawing, "node")) == Counter(list(lab.nodes))
    assert {box.name for box in boxes(drawing, "port")} == {str(i.port) for i in lab.interfaces()}
    cables = [shape.name for shape in drawing.shapes if isinstance(shape, Line)]
    for interface in lab.interfaces():
        assert any(name.startswith(f"{interface} to {interface.port}, ") for name in cables)
    for uplink in lab.uplinks.values():
        assert any(uplink.name in text and str(uplink.ports[0]) in text for text in texts)
    for switch in lab.switches:
        assert texts[f"switch {switch}"] == 1
    for domain in lab.domains:
        assert any(domain in text for text in texts)


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        (name, direction)
        for name in ("pair", "pairs:3", "opposed", "incast:5", "outcast:4", "mesh:3", "mesh:6")
        for direction in parse_topology(name).directions
    ],
)
def test_every_flow_has_an_arrow_to_its_receiver(name: str, direction: Direction) -> None:
    lab = virtual_lab()
    found = combination(lab, f"pi4b:onboard/{name}")
    flows = Counter(
        (run.a, run.b) if way is Direction.TX else (run.b, run.a)
        for run in found.topology.runs(direction)
        for way in run.direction.parts
    )
    drawing = combination_drawing(lab, found, direction)
    assert Counter(heads(drawing, found)) == flows


def heads(drawing: Drawing, found: Combination) -> list[tuple[int, int]]:
    """For every arrow head the end that its shaft comes from, and the end of the port that it points at."""
    ports = {box.name: box.rect for box in boxes(drawing, "port")}
    places = {str(end): ports[str(end.interface.port)] for end in found.ends}
    numbers = {str(end): number for number, end in enumerate(found.ends)}
    result = []
    for arrow in (shape for shape in drawing.shapes if isinstance(shape, Arrow)):
        sender, receiver = re.split(" to and from | to ", arrow.name)
        for tip, tail, names in (
            (arrow.end, arrow.start, (sender, receiver)),
            (arrow.start, arrow.end, (receiver, sender)),
        ):
            if tip in arrow.heads:
                nearest = min(places, key=lambda name: abs(places[name].x - tip[0]) + abs(places[name].y - tip[1]))
                source = min(places, key=lambda name: abs(places[name].x - tail[0]) + abs(places[name].y - tail[1]))
                assert (source, nearest) == names
                result.append((numbers[names[0]], numbers[names[1]]))
    return result


@pytest.mark.parametrize(
    ("direction", "expected"),
    [
        (Direction.TX, ["pi5-1:onboard to pi4b-1:usb", "pi4b-1:onboard to pi4b-2:onboard"]),
        (Direction.RX, ["pi4b-2:onboard to pi4b-1:onboard", "pi4b-1:usb to pi5-1:onboard"]),
    ],
)
def test_a_chain_has_an_arrow_in_each_group_and_one_inside_the_node(direction: Direction, expected: list[str]) -> None:
    lab = virtual_lab()
    drawing = combination_drawing(lab, combination(lab, "pi4b:onboard/chain"), direction)
    arrows = [shape for shape in drawing.shapes if isinstance(shape, Arrow)]
    assert [arrow.name for arrow in arrows if arrow.bend is not None] == expected
    (inside,) = [arrow for arrow in arrows if arrow.bend is None]
    (node,) = [box.rect for box in boxes(drawing, "node") if box.name == "pi4b-1"]
    assert node.holds(
        Rect(inside.start[0], min(inside.start[1], inside.end[1]), 0, abs(inside.start[1] - inside.end[1]))
    )
    rows = {label.text: label.y for label in labels(drawing) if node.holds(label.rect)}
    upwards = inside.end[1] < inside.start[1]
    assert upwards == (direction is Direction.TX), "usb, below, forwards to onboard, or the other way round"
    assert rows["onboard"] < rows["usb"]


def test_groups_and_uplinks_have_their_panels(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, SWITCHES)
    drawing = combination_drawing(lab, combination(lab, "pi5:onboard/mesh:5"), Direction.BIDIR)
    subtitles = [label.text for label in labels(drawing) if label.text.startswith("switch ")]
    # The switch in the middle has none of the ends, but carries their traffic.
    assert subtitles == [
        "switch rack-a: wired as it is",
        "switch core: wired as it is",
        "switch rack-b: a VLAN of its own",
    ]
    assert {box.kind for box in boxes(drawing, "group0", "group1")} == {"group0"}
    assert [box.name for box in boxes(drawing, "pill")] == ["trunk-a", "trunk-b"]


def test_pairs_have_a_group_each_in_a_colour_of_its_own() -> None:
    lab = virtual_lab()
    drawing = combination_drawing(lab, combination(lab, "pi4b:onboard/pairs:3"), Direction.TX)
    arrows = [shape for shape in drawing.shapes if isinstance(shape, Arrow)]
    assert [arrow.kind for arrow in arrows] == ["hue0", "hue1", "hue2"]
    for arrow, panel in zip(arrows, boxes(drawing, "group0", "group1", "group2"), strict=True):
        assert panel.rect.y < arrow.end[1] < panel.rect.bottom


def test_fifty_nodes_still_make_a_picture_of_a_few_screens(tmp_path: Path) -> None:
    lab = lab_of(tmp_path, FIFTY)
    for drawing in (
        lab_drawing(lab, {}),
        combination_drawing(lab, combination(lab, "pi4b:onboard/incast:49"), Direction.RX),
    ):
        assert drawing.width < 1200
        assert drawing.height < 3200
    heads = sorted(a.end[1] for a in drawing.shapes if isinstance(a, Arrow))
    assert min(b - a for a, b in pairwise(heads)) >= 10, "arrows can be told apart"
