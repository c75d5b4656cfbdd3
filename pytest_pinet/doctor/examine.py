"""Runs all checks in order. A failed check blocks a node, or the whole lab, for later checks that depend on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from pytest_pinet.config import labfile
from pytest_pinet.doctor.bench import Bench, open_bench
from pytest_pinet.doctor.cabling import Cabling
from pytest_pinet.doctor.clock import ClockAndThrottling
from pytest_pinet.doctor.finding import Finding, Status
from pytest_pinet.doctor.hardware import BoardAndNic
from pytest_pinet.doctor.iperf3 import Iperf3Versions
from pytest_pinet.doctor.lab_checks import CoordinatorAnswers, Exporter, PlacesFree
from pytest_pinet.doctor.links import LinkSpeed, SwitchPortAgrees
from pytest_pinet.doctor.node_checks import Boots, PowerReadBack, SerialLogin, Ssh
from pytest_pinet.doctor.noise import IdleNoise
from pytest_pinet.doctor.tolerance import Tolerances
from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.execution.names import unknown
from pytest_pinet.model.lab import Lab, Node


class Check(Protocol):
    """One line of ``pinet doctor``."""

    @property
    def name(self) -> str:
        """The name of the line."""

    @property
    def blocks(self) -> str:
        """Why a node (or the lab) that fails here is not checked further; empty if later checks can go on."""

    def run(self, bench: Bench) -> Sequence[Finding]:
        """Check ``bench.ready``, the nodes that are not blocked. May raise PinetError, and block nodes."""


LAB_FILE = "lab file"
LEFT_AS_FOUND = "left as found"
_NO_LAB_FILE = "the lab file is wrong"


def reaching() -> list[Check]:
    """Return the checks that must pass before commands can run on a node."""
    boots = Boots()
    return [CoordinatorAnswers(), Exporter(), PlacesFree(), PowerReadBack(boots), SerialLogin(boots), Ssh(boots)]


def checks() -> list[Check]:
    """Return all checks after the lab file, in the order of running and reporting."""
    return [
        *reaching(),
        Iperf3Versions(),
        BoardAndNic(),
        LinkSpeed(),
        SwitchPortAgrees(),
        Cabling(),
        ClockAndThrottling(),
        IdleNoise(),
        Tolerances(),
    ]


def examine(lab_file: str, names: Sequence[str], on_wait: Callable[[str], None]) -> Iterator[tuple[str, list[Finding]]]:
    """Yield every check with its findings as they come; the nodes are restored at the end.

    ``names`` are the nodes to check, all nodes if empty. Raises ConfigError for an unknown name.
    """
    try:
        lab = labfile.load(lab_file)
    except ConfigError as error:
        yield LAB_FILE, [Finding.of(LAB_FILE, error)]
        for check in checks():
            yield check.name, [Finding(check.name, Status.NOT_CHECKED, message=_NO_LAB_FILE)]
        return
    nodes = select(lab, names)
    what = f"{lab_file}: {_count(lab.nodes, 'node')}, {_count(lab.interfaces(), 'interface')}, "
    yield LAB_FILE, [Finding(LAB_FILE, Status.OK, message=what + _count(lab.switches, "switch"))]
    left: list[str] = []
    with open_bench(lab, nodes, on_wait, left.extend) as bench:
        yield from run(checks(), bench)
    if left:
        act = "look at what it names; pinet lab restore puts back switch ports"
        yield LEFT_AS_FOUND, [Finding(LEFT_AS_FOUND, Status.WRONG, message=warning, act=act) for warning in left]


def _count(things: object, word: str) -> str:
    number = len(things)  # type: ignore[arg-type]
    return f"{number} {word}{'' if number == 1 else 'es' if word.endswith('ch') else 's'}"


def select(lab: Lab, names: Sequence[str]) -> list[Node]:
    """Return the nodes of these names, in the order of the lab file; all nodes if empty. Raises ConfigError."""
    for name in names:
        if name not in lab.nodes:
            raise ConfigError(unknown("node", name, lab.nodes, lab.file))
    return [node for node in lab.nodes.values() if not names or node.name in names]


def run(checks: Sequence[Check], bench: Bench) -> Iterator[tuple[str, list[Finding]]]:
    """Run checks on a bench, one after the other."""
    stopped = ""
    for check in checks:
        if stopped:
            yield check.name, [Finding(check.name, Status.NOT_CHECKED, message=stopped)]
            continue
        kept_from = [
            Finding(check.name, Status.NOT_CHECKED, node.name, bench.blocked[node.name])
            for node in bench.nodes
            if node.name in bench.blocked
        ]
        try:
            found = list(check.run(bench))
        except PinetError as error:
            found = [Finding.of(check.name, error)]
        if check.blocks:
            wrong = [finding for finding in found if finding.status is Status.WRONG]
            bench.blocked.update({finding.node: check.blocks for finding in wrong if finding.node is not None})
            if any(finding.node is None for finding in wrong):
                stopped = check.blocks
        yield check.name, kept_from + found
