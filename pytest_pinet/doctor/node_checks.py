"""Checks that a node can be used: coordinator, exporter, free place, power, serial console, ssh and iperf3.

A node that does not answer is reported, not power-cycled. The ssh login may reboot a node to undo an interrupted run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from pytest_pinet.builds.config_txt import TRYBOOT
from pytest_pinet.doctor.bench import Bench, Finding, Status
from pytest_pinet.errors import ConsoleError, LabError, PinetError, PowerError, SshError, UnsupportedError, first_line
from pytest_pinet.evidence.nics import read_board
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.shell import as_root, root_cure, why_no_root
from pytest_pinet.lab.contention import PLACE_PREFIX
from pytest_pinet.lab.node.node_login import answer_timeout_s, ssh_timeout_s
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.lab import Node
from pytest_pinet.traffic.exchange import missing, packages
from pytest_pinet.traffic.iperf3_command import OLDEST, Version, read_tool, too_old

# A power switch that fails faster than this has answered.
SILENCE_S = 2.0
_EEPROM = "if command -v rpi-eeprom-config >/dev/null; then rpi-eeprom-config; fi"
_BUTTON = "WAIT_FOR_POWER_BUTTON=1"
NO_POWER = (
    "no power control: a kernel that hangs needs you to unplug the board; gates of builds ask before they boot it"
)
NO_CONSOLE = (
    "no serial console: the last words of a kernel that dies are lost, and a board that does not boot does not say why"
)


def check_coordinator(bench: Bench) -> Sequence[Finding]:
    """Check that the lab is up and its coordinator answers."""
    pool = bench.access.pool
    pool.places.sync()
    if bench.coordinator is None:
        message = "none: a lock file on each board leases it to one user at a time"
        return [Finding(Status.OK, message=f"{message}; labgrid-client does not show these leases")]
    return [Finding(Status.OK, message=pool.address)]


def check_exporters(bench: Bench) -> Sequence[Finding]:
    """Check that each node has a place, and that exporters offer all resources of the place."""
    coordinator = bench.coordinator
    if coordinator is None:
        return [Finding(Status.OK, message="none needed: the lab file has all resources")]
    session, address = coordinator.session, coordinator.address
    offered = [
        (exporter, group, entry.cls, name)
        for exporter, groups in session.resources.items()
        for group, entries in groups.items()
        for name, entry in entries.items()
        # The resources of a lost exporter stay listed, without parameters.
        if "params" in entry.data and entry.avail
    ]

    def look(node: Node) -> list[Finding]:
        # Raises LeaseError if there is no such place.
        coordinator.holder(node.place)
        matches = session.places[node.place].matches
        absent = [str(match) for match in matches if not any(match.ismatch(path) for path in offered)]
        # No exporter serves the machine that pytest runs on.
        if (matches or node.runner) and not absent:
            return []
        if not matches:
            message = f"place {node.place} matches no resources"
            act = f"labgrid-client -x {address} -p {node.place} add-match EXPORTER/{node.place}/*"
        else:
            message = f"no exporter offers {', '.join(absent)}, which place {node.place} needs"
            act = (
                f"the lab's admin: start labgrid-exporter -c {address} on the machine that {node.name} is connected to"
            )
        return [Finding(Status.WRONG, node.name, message, act)]

    return bench.one_by_one(look)


def check_places(bench: Bench) -> Sequence[Finding]:
    """Check that no other user holds the nodes, and lease them. Nodes that others hold are not touched."""
    missing = bench.lease(bench.ready)

    def look(node: Node) -> list[Finding]:
        why = missing.get(node.name)
        if why is None:
            return []
        if isinstance(why, LabError):
            raise why
        act = f"ask {why.whom}, or: {bench.access.pool.places.way_to_release(node.place)}"
        return [Finding(Status.WRONG, node.name, f"place {node.place} is held by {why}", act)]

    found = bench.one_by_one(look)
    if bench.lab.launcher is not None or bench.coordinator is None:
        return found
    # Runs on other hosts cannot see a contention domain without a place. Whether other hosts measure in this lab is not
    # known here.
    known = bench.coordinator.places()
    client = f"labgrid-client -x {bench.coordinator.address}"
    for domain in (one for one in bench.lab.domains if PLACE_PREFIX + one not in known):
        message = f"contention domain {domain} has no place, so only runs on this host wait for each other"
        act = f"if other hosts measure in this lab, too: {client} -p {PLACE_PREFIX}{domain} create"
        found.append(Finding(Status.UNKNOWN, message=message, act=act))
    return found


def check_power(bench: Bench) -> Sequence[Finding]:
    """Check that each power switch reports its node's state. Nodes that are off are powered on for the next checks."""
    # Addresses of power switches that did not answer, each with the node that first needed it.
    silent: dict[str, str] = {}

    def look(node: Node) -> Sequence[Finding]:
        session = bench.session(node)
        if node.runner:
            return []
        if not session.strategy.has_power:
            return [Finding(Status.UNKNOWN, node.name, NO_POWER)]
        on = _is_on(session, silent)
        try:
            session.switch_on()
        except ConsoleError as error:
            # The console must be open before power comes on. The power switch is not at fault.
            bench.refused[node.name] = error
        if on is False:
            bench.boots[node.name] = Deadline(node.boot_timeout_s)
        message = "this power switch cannot report whether the node is on"
        return [Finding(Status.UNKNOWN, node.name, message)] if on is None else []

    return bench.one_by_one(look)


def _is_on(session: NodeSession, silent: dict[str, str]) -> bool | None:
    # Only a power switch that is a network device has a host.
    host: str | None = getattr(getattr(session.strategy.power, "port", None), "host", None)
    if host in silent:
        # Each request to a dead power switch takes seconds, and many nodes can share it.
        message = f"its power switch at {host} did not answer, see {silent[host]}"
        raise PowerError(message, f"the lab's admin: follow the advice for {silent[host]}")
    started = time.monotonic()
    try:
        on: bool | None = session.strategy.node_power.is_on()
    except PowerError:
        if host is not None and time.monotonic() - started > SILENCE_S:
            silent[host] = session.node.name
        raise
    return on


def check_serial_login(bench: Bench) -> Sequence[Finding]:
    """Check the login over the serial console."""

    def log_in(node: Node) -> None:
        if node.name in bench.refused:
            raise bench.refused[node.name]
        if not bench.session(node).strategy.has_login:
            return
        # As in a test: a node that was just powered on, or that still prints, has its boot timeout.
        patience_s = _patience_s(bench, node, answer_timeout_s(node))
        bench.session(node).strategy.log_in(patience_s, node.boot_timeout_s)

    found = _logins(bench, ConsoleError, "on its serial console", log_in)
    without = [n for n in bench.ready if not n.runner and not bench.session(n).strategy.has_login]
    return [*found, *(Finding(Status.UNKNOWN, node.name, NO_CONSOLE) for node in without)]


def check_ssh(bench: Bench) -> Sequence[Finding]:
    """Check the login over ssh, and read what each node is. Later checks use this connection, and these NICs."""

    def log_in(node: Node) -> None:
        session = bench.session(node)
        session.strategy.connect(_patience_s(bench, node, ssh_timeout_s(node)))
        session.log_in()
        bench.boards[node.name] = read_board(session.shell)

    found = _logins(bench, SshError, "over ssh", log_in)
    bench.find_nics()
    return found


def _patience_s(bench: Bench, node: Node, least_s: float) -> float:
    deadline = bench.boots.get(node.name)
    return least_s if deadline is None else max(least_s, deadline.remaining_s)


def _logins(
    bench: Bench, kind: type[ConsoleError | SshError], how: str, log_in: Callable[[Node], None]
) -> list[Finding]:
    """Log in to each ready node. Errors of labgrid become an error of this kind."""

    def look(node: Node) -> Sequence[Finding]:
        try:
            log_in(node)
        except PinetError:
            raise
        except Exception as error:
            client = f"labgrid-client -x {bench.access.pool.address} -p {node.place}"
            strategy = bench.session(node).strategy
            act = f"look at its console: {client} console" if strategy.has_login else "check its network"
            cycle = f"{client} power cycle" if strategy.has_power else "unplug it and plug it in again"
            act = f"{act}; if it hangs: {cycle}"
            raise kind(f"{node.name} does not answer {how}: {first_line(error.__cause__ or error)}", act) from None
        return []

    return bench.one_by_one(look)


def check_root(bench: Bench) -> Sequence[Finding]:
    """Check that commands can run as root: by the login, or by sudo without a password."""

    def look(node: Node) -> Sequence[Finding]:
        why = why_no_root(bench.shell(node.name))
        if why is None:
            return []
        message = f"the ssh user of {node.name} cannot become root: {why}"
        return [Finding(Status.WRONG, node.name, message, root_cure(node.name))]

    return bench.in_parallel(look)


def check_power_on(bench: Bench) -> Sequence[Finding]:
    """Check that a board boots as soon as it has power. Only the boot loader of a Raspberry Pi says so."""

    def look(node: Node) -> Sequence[Finding]:
        done = bench.shell(node.name).run(as_root(_EEPROM))
        if not any(line.split("#")[0].strip() == _BUTTON for line in done.stdout.splitlines()):
            return []
        message = f"{node.name} waits for its power button when its power returns ({_BUTTON})"
        return [Finding(Status.WRONG, node.name, message, f"on {node.name}: sudo rpi-eeprom-config --edit")]

    return bench.in_parallel(look)


def check_iperf3(bench: Bench) -> Sequence[Finding]:
    """Check that every node has a supported iperf3, and that either all versions use threads or none."""
    versions: dict[str, Version] = {}

    def look(node: Node) -> Sequence[Finding]:
        versions[node.name] = read_tool(bench.shell(node.name)).version
        return []

    missing = bench.in_parallel(look)
    return [*missing, *judge_iperf3({n.name: versions[n.name] for n in bench.ready if n.name in versions})]


def check_tools(bench: Bench) -> Sequence[Finding]:
    """Check for programs that only some metrics need. Tests of these metrics are skipped without them."""

    def look(node: Node) -> Sequence[Finding]:
        lacks = missing(bench.shell(node.name))
        if not lacks:
            return []
        message = f"no {' and no '.join(lacks)}: tests that need {'them' if lacks[1:] else 'it'} are skipped"
        return [Finding(Status.UNKNOWN, node.name, message, f"on that node: sudo apt-get install {packages(lacks)}")]

    return bench.in_parallel(look)


def judge_iperf3(versions: Mapping[str, Version]) -> list[Finding]:
    """Return a finding for each of these nodes. Two nodes are one pair, whose results all have the same versions."""
    threaded = Counter(version.threaded for version in versions.values())
    usual = threaded.most_common(1)[0][0] if threaded else False
    found = []
    for node, version in versions.items():
        message, act = str(version), ""
        if (old := too_old(version)) is not None:
            message, act = old, f"on that node: install iperf3 {OLDEST} or newer"
        elif version.threaded != usual:
            # Since 3.16 each stream has a thread, so results of nodes with a busy processor cannot be compared.
            others = " and ".join(map(str, sorted({v for v in versions.values() if v.threaded == usual})))
            message = f"iperf3 {version} runs its streams in {'threads' if version.threaded else 'one thread'}, unlike "
            if len(versions) == 2:
                message += f"{others} on the other node: compare results only with results of these two versions"
            else:
                message += f"{others} on the other nodes, so their results cannot be compared"
                act = "on that node: install the version of the other nodes"
        found.append(Finding(Status.WRONG if act else Status.OK, node, message, act, shown=version.threaded != usual))
    return found


def check_trial_boot(bench: Bench) -> Sequence[Finding]:
    """Boot each board for a trial. Its sentence says how the boot was requested, or why it is refused."""

    def look(node: Node) -> list[Finding]:
        deployment = bench.session(node).deployment
        try:
            arming = deployment.prove()
        except UnsupportedError as why:
            # The machine that runs pytest needs no trial boot.
            return [Finding(Status.UNKNOWN if node.runner else Status.WRONG, node.name, str(why))]
        message = f"{node.name} booted a copy of its known-good files once by {TRYBOOT}, as {arming} requested"
        return [Finding(Status.OK, node.name, message, shown=True)]

    return bench.one_by_one(look)
