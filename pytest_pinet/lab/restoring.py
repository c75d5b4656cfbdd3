"""Puts back the switch ports that crashed processes left changed, of any lab that can be reached.

Only those that nobody uses: a port is leased, by the place of its node or uplink, for as long as it is worked on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from pytest_pinet.config import labfile
from pytest_pinet.errors import CoordinatorError, LeaseError
from pytest_pinet.lab.coordinator import Coordinator, Holding
from pytest_pinet.lab.deadline import Deadline
from pytest_pinet.lab.heartbeat import BEAT_S, STILL_S
from pytest_pinet.lab.identity import Identity
from pytest_pinet.lab.launcher import launcher_of
from pytest_pinet.lab.lease import Leases
from pytest_pinet.lab.switch_journal import Journal, restore_crashed
from pytest_pinet.lab.switches import open_switch
from pytest_pinet.lab.targets import Targets
from pytest_pinet.model.lab import Lab, PortRef

# A holder that died with another host, or before this one was started anew, is told by its heart alone.
DEAD_HOLDER_S = STILL_S + 3 * BEAT_S
WITHOUT_LEASES = "--without-leases"


def restore_ports(lab_file: str, on_wait: Callable[[str], None], without_leases: bool = False) -> list[str]:
    """A sentence for each port that was put back, and for each that was left as it is.

    ``without_leases`` asks nobody whether the ports are in use. Raises ConfigError; CoordinatorError when the
    coordinator cannot be asked; SwitchError when a switch refuses. A lab that its launcher has stopped has no ports.
    """
    lab = labfile.load(lab_file)
    launcher = launcher_of(lab)
    found = {} if launcher is None else launcher.find(lab)
    if found is None:
        return []

    def restore(spared: Iterable[PortRef] = ()) -> list[str]:
        return restore_crashed(lab.file, lambda name: open_switch(lab, name), spared=set(spared))

    with _environment(found):
        left, _ = Journal(lab.file).left_behind()
        guards = _guards(lab, (PortRef(switch, port) for switch, ports in left.items() for port in ports))
        if without_leases or not guards:
            return restore()
        with _leased(lab, guards, on_wait) as why_not:
            spared = {port: why for port, places in guards.items() for place in places if (why := why_not.get(place))}
            told = [f"left port {port.port} of switch {port.switch} as it is: {why}" for port, why in spared.items()]
            # The journal is read again: whoever used these ports until now may have put them back.
            return told + restore(spared)


def _guards(lab: Lab, ports: Iterable[PortRef]) -> dict[PortRef, list[str]]:
    """The places that whoever uses a port must hold; a port to which nothing is cabled has none."""
    guards: dict[PortRef, list[str]] = {}
    cabled = [(interface.port, node.place) for node in lab.nodes.values() for interface in node.interfaces]
    cabled += [(port, uplink.place) for uplink in lab.uplinks.values() for port in uplink.ports]
    wanted = set(ports)
    for port, place in cabled:
        if port in wanted:
            guards.setdefault(port, []).append(place)
    return guards


@contextmanager
def _leased(
    lab: Lab, guards: Mapping[PortRef, list[str]], on_wait: Callable[[str], None]
) -> Iterator[Mapping[str, str]]:
    """Hold the places of these ports; yields, by place, why it could not be had."""
    targets = Targets(lab)
    try:
        coordinator = Coordinator(targets.address, Identity.of_this_process("restore"))
    except CoordinatorError as error:
        raise CoordinatorError(
            f"{error.message}, so nobody can tell whether {_and(guards)} {'are' if len(guards) > 1 else 'is'} in use: "
            "left as found",
            f"{error.act} If nobody uses them: pinet lab restore --lab {lab.file} {WITHOUT_LEASES}",
        ) from error
    finally:
        targets.close()
    leases = Leases(coordinator, lambda _: None, on_wait)
    try:
        wanted = {place for places in guards.values() for place in places}
        missing = leases.acquire_free(wanted)
        deadline = Deadline(DEAD_HOLDER_S)
        while (unsure := _perhaps_dead(missing.values())) and not deadline.expired:
            on_wait(f"looking for {deadline.remaining_s:.0f} s whether {unsure[0]} lives")
            coordinator.await_change(min(1.0, deadline.remaining_s))
            missing = leases.acquire_free(wanted)
        yield {
            place: f"place {place} is held by {why}" if isinstance(why, Holding) else why.message
            for place, why in missing.items()
        }
    finally:
        # What a coordinator does not take back now it does when our heart has stopped.
        with suppress(CoordinatorError):
            leases.release(leases.held)
        coordinator.close()


def _perhaps_dead(missing: Iterable[Holding | LeaseError]) -> list[Identity]:
    """Of the holders those whose silence would tell."""
    return [why.holder for why in missing if isinstance(why, Holding) and why.holder.beats]


def _and(ports: Iterable[PortRef]) -> str:
    return ", ".join(map(str, ports))


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """The ``LG_*`` variables that settings of switches may name."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
