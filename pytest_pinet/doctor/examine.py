"""Runs all checks in order. A failed check blocks a node, or the lab, for later ones. The history remembers boards."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_pinet.config import labfile
from pytest_pinet.doctor import cabling, disturbances, links, node_checks
from pytest_pinet.doctor.bench import Bench, Finding, Status, open_bench
from pytest_pinet.errors import ConfigError, PinetError
from pytest_pinet.execution.files import exists
from pytest_pinet.execution.names import unknown
from pytest_pinet.history.boards import odd_in, standing
from pytest_pinet.history.history import OFF, open_history
from pytest_pinet.history.points import OutOfService, Suspicion
from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.model.lab import Lab, Node

if TYPE_CHECKING:
    from pytest_pinet.history.store import HistoryStore


@dataclass(frozen=True)
class Check:
    """One line of ``pinet doctor``.

    ``run`` checks ``bench.ready``, the nodes that are not blocked. A node without a finding is ok. ``blocks`` says why
    a node (or the lab) that fails here is not checked further; if empty, later checks go on. ``per_node`` is False for
    a check of the lab as a whole.
    """

    name: str
    run: Callable[[Bench], Sequence[Finding]]
    blocks: str = ""
    per_node: bool = True


LAB_FILE = "lab file"
LEFT_AS_FOUND = "left as found"
# All checks after the one that stopped the whole lab.
OTHERS = "all other checks"
# The checks that must pass before commands can run on a node.
REACHING = (
    Check("coordinator", node_checks.check_coordinator, "no coordinator", per_node=False),
    Check("exporter", node_checks.check_exporters, "no exporter serves its place"),
    Check("places free", node_checks.check_places, "its place is not available"),
    Check("power read-back", node_checks.check_power, "no power"),
    Check("serial login", node_checks.check_serial_login, "no serial login"),
    Check("ssh", node_checks.check_ssh, "no ssh"),
    Check("root rights", node_checks.check_root, "its user is not root and has no sudo"),
)
LINK_SPEED = Check("link speed and duplex", links.check_link_speed)
# All checks after the lab file, in the order of running and reporting.
CHECKS = (
    *REACHING,
    Check("power-on", node_checks.check_power_on),
    Check("management", links.check_management),
    Check("iperf3 versions", node_checks.check_iperf3),
    Check("tools of metrics", node_checks.check_tools),
    Check("board and NIC", links.check_board_and_nics),
    Check("network managers", links.check_managers, per_node=False),
    LINK_SPEED,
    Check("switches", links.check_switches, per_node=False),
    Check("switch port agrees", links.check_switch_ports),
    Check("cabling", cabling.check_cabling),
    Check("clock and throttling", disturbances.check_clock),
    Check("idle noise", disturbances.check_noise),
    Check("tolerance", disturbances.check_tolerances, per_node=False),
)
# The checks of ``pinet doctor --tryboot``, which reboots each board twice.
TRIAL_BOOT = (*REACHING, Check("trial boot", node_checks.check_trial_boot))


def examine(
    lab_file: str, names: Sequence[str], on_wait: Callable[[str], None], checks: Sequence[Check] = CHECKS
) -> Iterator[tuple[str, list[Finding]]]:
    """Yield each check with its findings, for these nodes or all. Restore them at the end. Raises ConfigError."""
    try:
        lab = labfile.load(lab_file)
        if lab.launcher is None:
            # A launcher sets the variables of its lab when it starts the lab.
            Targets(lab).close()
    except ConfigError as error:
        yield LAB_FILE, [Finding.of(error)]
        yield OTHERS, [Finding(Status.NOT_CHECKED, message="the lab file is wrong")]
        return
    nodes = select(lab, names)
    what = f"{lab_file}: {_count(lab.nodes, 'node')}, {_count(lab.interfaces(), 'interface')}, "
    yield LAB_FILE, [Finding(Status.OK, message=what + _count(lab.switches, "switch"))]
    left: list[str] = []
    with open_bench(lab, nodes, on_wait, left.extend) as bench:
        yield from run(checks, bench)
    if left:
        act = "check the part that the message names; for switch ports, run: pinet lab restore"
        yield LEFT_AS_FOUND, [Finding(Status.WRONG, message=warning, act=act) for warning in left]


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
    """Run checks on a bench, one after the other. Yield their names and findings, by node in the lab file's order.

    A fault of the lab as a whole may stop all later checks. They are one finding then.
    """
    order = {node.name: number for number, node in enumerate(bench.nodes)}
    for check in checks:
        found = [Finding(Status.NOT_CHECKED, name, why) for name, why in bench.blocked.items()]
        ready = bench.ready
        try:
            found += check.run(bench)
            missing = {node.name for node in ready if check.per_node} - {finding.node for finding in found}
            found += [Finding(Status.OK, name) for name in missing]
        except PinetError as error:
            found.append(Finding.of(error))
        found.sort(key=lambda finding: order.get(finding.node or "", len(order)))
        wrong = [finding for finding in found if finding.status is Status.WRONG]
        if check.blocks:
            bench.blocked.update({finding.node: check.blocks for finding in wrong if finding.node is not None})
        yield check.name, found
        if check.blocks and any(finding.node is None for finding in wrong):
            yield OTHERS, [Finding(Status.NOT_CHECKED, message=check.blocks)]
            return


EARLIER_RUNS = "earlier runs"


def remembered_boards(url: str, lab: str, nodes: Collection[str]) -> list[Finding]:
    """Return a finding for each of these nodes that the history remembers. Raises ConfigError."""
    if not _exists(url):
        return []
    with open_history(url) as store:
        out = [one for one in store.remembered(OutOfService, lab) if one.node in nodes]
        suspected = _suspected(store, lab)
    act = "when the board is well, run: pinet doctor --clear"
    found = [Finding(Status.WRONG, one.node, f"{one.node} is {one}", act) for one in out]
    act = (
        "exchange it with another board of its kind, at the same port; if the fault moves with it, it is the board; "
        "then run: pinet doctor --clear"
    )
    own = ((node, text) for node, text in suspected.items() if node in nodes)
    return found + [Finding(Status.UNKNOWN, node, text, act, shown=True) for node, text in own]


def clear_boards(url: str, lab: str, nodes: Collection[str]) -> list[str]:
    """Put these nodes back into service, and end suspicions of them. Return a sentence for each. Raises ConfigError."""
    if not _exists(url):
        return []
    with open_history(url) as store:
        out = [one.node for one in store.remembered(OutOfService, lab) if one.node in nodes]
        suspected = [node for node in _suspected(store, lab) if node in nodes]
        if out:
            store.put_into_service(lab, out)
        if suspected:
            now = datetime.now(UTC)
            store.remember(lab, [Suspicion(node, now, "", "", cleared=True) for node in suspected])
    return [f"{node} is back in service" for node in out] + [f"{node} is no longer suspected" for node in suspected]


def _suspected(store: HistoryStore, lab: str) -> dict[str, str]:
    """Return why boards are suspected, by node: what runs have stored, and what the values of imported runs say."""
    stored = {node: f"{node} is {one}" for node, one in standing(store.remembered(Suspicion, lab)).items()}
    return {odd.node: str(odd) for odd in odd_in(store, lab)} | stored


def _exists(url: str) -> bool:
    return url.strip().lower() not in OFF and ("://" in url or exists(url))
