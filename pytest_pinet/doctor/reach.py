"""Says which parts of a bench can be reached now, for ``pinet lab status``. Leases nothing and changes nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass

from pytest_pinet.errors import LabError, PinetError, first_line
from pytest_pinet.lab.labgrid.coordinator import Coordinator
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.lab.places import Places, open_places
from pytest_pinet.lab.switch.managed_switch import open_switch
from pytest_pinet.model.lab import Lab, Node, Switch
from pytest_pinet.report.text_wrap import text_table

CONNECT_S = 3.0
SSH_PORT = 22


@dataclass(frozen=True)
class Reach:
    """One part of a bench. ``answers`` is None if its address is not known. ``words`` say what answers, or why not."""

    part: str
    answers: bool | None
    words: str
    lease: str = ""

    def as_json(self) -> dict[str, str | bool | None]:
        return asdict(self)


def reach(lab: Lab) -> list[Reach]:
    """Return the coordinator, the nodes and the switches of a lab without a launcher. Raises ConfigError."""
    with closing(Targets(lab)) as targets:
        try:
            places = open_places(lab, targets, Identity.of_this_process("status"))
        except LabError as error:
            return [Reach("coordinator", False, first_line(error)), *_switches(lab)]
        with closing(places), ThreadPoolExecutor(len(lab.nodes)) as pool:
            places.sync()
            found = [Reach("coordinator", True, targets.address)] if isinstance(places, Coordinator) else []
            return [*found, *pool.map(lambda node: _node(node, places), lab.nodes.values()), *_switches(lab)]


def _node(node: Node, places: Places) -> Reach:
    try:
        holding = places.holding(node.place)
        silence = places.silence(node.place)
    except PinetError as error:
        return Reach(node.name, False, first_line(error))
    lease = "free" if holding is None else f"held by {holding}"
    if node.runner:
        return Reach(node.name, True, "this machine", lease)
    if silence is not None:
        return Reach(node.name, False, first_line(silence))
    if not isinstance(places, Coordinator):
        return Reach(node.name, True, "answers over ssh", lease)
    service = places.service_of(node.place)
    if service is None:
        return Reach(node.name, None, "no exporter offers its NetworkService, so its address is not known", lease)
    host, port, _ = service
    where = host if port == SSH_PORT else f"{host} port {port}"
    try:
        socket.create_connection((host.strip("[]"), port), CONNECT_S).close()
    except OSError as error:
        return Reach(node.name, False, f"no ssh server answers at {where} ({error.strerror or error})", lease)
    return Reach(node.name, True, f"an ssh server answers at {where}", lease)


def _switches(lab: Lab) -> list[Reach]:
    return [_switch(lab, switch) for switch in lab.switches.values() if switch.backend != "fixed"]


def _switch(lab: Lab, switch: Switch) -> Reach:
    name = f"switch {switch.name}"
    try:
        with closing(open_switch(lab, switch.name)) as opened:
            return Reach(name, True, f"answers ({opened.about.title})" if opened.capabilities else "answers")
    except PinetError as error:
        return Reach(name, False, first_line(error))


def lines(parts: Iterable[Reach]) -> list[str]:
    """Return a table of the parts."""
    marks = {True: "ok", False: "BAD", None: "?"}
    return text_table([(marks[one.answers], one.part, one.words, one.lease) for one in parts], "<  <  <  <")
