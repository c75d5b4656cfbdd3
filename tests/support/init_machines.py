"""Machines for tests of ``pinet init``: the outputs in tests/data/init, read by the real parsers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_pinet.evidence.nics import parse_board
from pytest_pinet.init.machine import Login, Machine, Route, parse
from pytest_pinet.lab.node.management import FoundManagement
from pytest_pinet.lab.node.management import parse as parse_management
from pytest_pinet.traffic.iperf3_command import Version

DATA = Path(__file__).parents[1] / "data" / "init"


def machine(name: str, address: str | None = "192.0.2.5") -> Machine:
    """Return a machine that has iperf3 and root rights. ``address`` None: the machine that runs pytest."""
    text = (DATA / f"{name}.txt").read_text()
    # Another board of the same model has other addresses.
    if address is not None and address != "192.0.2.5":
        text = text.replace(":01:02:0", ":0a:0b:0")
    look, board, management = text.split("---\n")
    login = None if address is None else Login("pi", address, 22, address)
    return replace(
        parse(look, login),
        board=parse_board(board),
        management=parse_management(management) if login is not None else FoundManagement(),
        iperf3=Version(3, 18),
    )


def direct(address: str) -> Route:
    """Every address is in the network of enp3s0."""
    return Route("enp3s0", None)
