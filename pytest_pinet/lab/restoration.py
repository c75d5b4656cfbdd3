"""Restore the switch ports that crashed processes left changed, in any lab that can be reached.

Ports in use are left alone. A run leases the place of a port's node or uplink for as long as it uses the port.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from pytest_pinet.config import labfile
from pytest_pinet.errors import ConfigError, CoordinatorError, LabError, LeaseError, SshError, SwitchError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.grouping import grouped
from pytest_pinet.lab.labgrid.identity import Holding, Identity
from pytest_pinet.lab.labgrid.targets import Targets
from pytest_pinet.lab.launcher import environment, launcher_of
from pytest_pinet.lab.lease import Leases
from pytest_pinet.lab.places import open_places
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.managed_switch import ManagedSwitch, in_words, open_switch
from pytest_pinet.model.lab import Lab, PortRef

WITHOUT_LEASES = "--without-leases"


def restore_ports(lab_file: str, on_wait: Callable[[str], None], without_leases: bool = False) -> list[str]:
    """Restore the ports; return one sentence for each restored port and one for each port left unchanged.

    ``without_leases`` skips the check whether the ports are in use. Raises ConfigError; CoordinatorError when the
    coordinator does not answer; SwitchError when a switch refuses. A lab that its launcher has stopped has no ports.
    """
    lab = labfile.load(lab_file)
    launcher = launcher_of(lab)
    found = {} if launcher is None else launcher.find(lab)
    if found is None:
        return []

    def restore(spared: Iterable[PortRef] = ()) -> list[str]:
        return restore_crashed(lab.file, lambda name: open_switch(lab, name), spared=set(spared))

    # Settings of switches may use the variables of the lab.
    with environment(found):
        left, _ = Journal(lab.file).left_behind()
        guards = _guards(lab, (PortRef(switch, port) for switch, ports in left.items() for port in ports))
        if without_leases or not guards:
            return restore()
        with _leased(lab, guards, on_wait) as why_not:
            spared = {port: why for port, places in guards.items() for place in places if (why := why_not.get(place))}
            kept = [
                f"not restored: port {port.port} of switch {port.switch}, because {why}" for port, why in spared.items()
            ]
            # `restore` reads the journal again: the previous holder may have restored its ports by now.
            return kept + restore(spared)


def _guards(lab: Lab, ports: Iterable[PortRef]) -> dict[PortRef, list[str]]:
    """Return, by port, the places that a user of the port must hold. A port without a cable has none."""
    cabled = [(interface.port, node.place) for node in lab.nodes.values() for interface in node.interfaces]
    cabled += [(port, uplink.place) for uplink in lab.uplinks.values() for port in uplink.ports]
    wanted = set(ports)
    return grouped((port, place) for port, place in cabled if port in wanted)


@contextmanager
def _leased(
    lab: Lab, guards: Mapping[PortRef, list[str]], on_wait: Callable[[str], None]
) -> Iterator[Mapping[str, str]]:
    """Lease the places of these ports; yield, for each place that could not be leased, the reason."""
    targets = Targets(lab)
    try:
        places = open_places(lab, targets, Identity.of_this_process("restore"))
    except CoordinatorError as error:
        raise CoordinatorError(
            f"{error.message}. Not restored: {', '.join(map(str, guards))}, because pinet cannot check whether another "
            "run uses them",
            f"{error.act} If no other run uses them: pinet lab restore --lab {lab.file} {WITHOUT_LEASES}",
        ) from error
    finally:
        targets.close()
    leases = Leases(places, lambda _: None, on_wait)
    try:
        wanted = {place for guarding in guards.values() for place in guarding}
        missing = leases.acquire_free(wanted)
        # If a holder died on another host, or before this host rebooted, only its missing heartbeats show that.
        deadline = Deadline(places.dead_after_s)
        while (unsure := _with_heartbeat(missing.values())) and not deadline.expired:
            on_wait(f"waiting up to {deadline.remaining_s:.0f} s for a heartbeat of {unsure[0]}")
            places.await_change(min(1.0, deadline.remaining_s))
            missing = leases.acquire_free(wanted)
        yield {
            place: f"place {place} is held by {why}" if isinstance(why, Holding) else why.message
            for place, why in missing.items()
        }
    finally:
        # If the coordinator does not take the places back now, it does when our heartbeat has stopped.
        with suppress(CoordinatorError):
            leases.release(leases.held)
        places.close()


def _with_heartbeat(missing: Iterable[Holding | LeaseError | SshError]) -> list[Identity]:
    """Return the holders that send heartbeats; if such a holder is silent, it is dead."""
    return [why.holder for why in missing if isinstance(why, Holding) and why.holder.beats]


def restore_crashed(
    lab_file: str,
    open_switch: Callable[[str], ManagedSwitch],
    folder: Path | None = None,
    spared: Collection[PortRef] = (),
) -> list[str]:
    """Restore the ports that dead processes left changed on this lab's switches; return a sentence for each port.

    Changes of living processes and the ports in ``spared`` are left alone. Raises SwitchError when a switch refuses,
    after all others were restored.
    """
    found, sentences = Journal(lab_file, folder).left_behind()
    left = {
        name: kept
        for name, ports in found.items()
        if (kept := {port: state for port, state in ports.items() if PortRef(name, port) not in spared})
    }
    failures: list[LabError | ConfigError] = []
    for name, ports in left.items():
        try:
            with closing(open_switch(name)) as switch:
                switch.put_back(ports)
        except (LabError, ConfigError) as error:
            failures.append(error)
            continue
        sentences += [f"restored port {port} of switch {name}: {in_words(state)}" for port, state in ports.items()]
    if failures:
        done = "".join(f"\n  {line}" for line in sentences)
        raise SwitchError("; ".join(error.message for error in failures) + done, getattr(failures[0], "act", ""))
    return sentences
