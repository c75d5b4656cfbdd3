"""Settings of the ends of a link that stands: applied, read back, and taken back in reverse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pytest_pinet.errors import LabError
from pytest_pinet.evidence.interface import read_interface
from pytest_pinet.lab import link_checks
from pytest_pinet.lab.bounce import await_links
from pytest_pinet.lab.link import Link
from pytest_pinet.lab.undo import UndoStack
from pytest_pinet.model.tuning import Outcome, Tuned, Tuning
from pytest_pinet.steps import doing
from pytest_pinet.tuning import change
from pytest_pinet.tuning.registry import in_order, together
from pytest_pinet.tuning.setting import Place, Setting, Where


def apply(link: Link, tuning: Tuning, undo: UndoStack) -> tuple[Tuned, ...]:
    """Apply all settings of a node that runs; what takes them back goes into ``undo``. The link knows them afterwards.

    Raises LinkError for a link that does not come back, InvalidMeasurement where a frame of the MTU that was asked for
    gets lost on the way, SshError, LabError. Outcomes that do not hold are no errors.
    """
    asked = dict(tuning.settings)
    register = _booting_at_failure(link, undo)
    done: list[tuple[Setting, Place, Tuned]] = []
    for setting in in_order(asked):
        for place in _places(link, setting.where):
            with doing(f"tune {setting.name}={asked[setting.name]} of {place.end}"):
                done.append((setting, place, change.apply(setting, place, asked[setting.name], register)))
    changed = [setting for setting, _, tuned in done if tuned.outcome is not Outcome.UNCHANGED]
    if changed:
        settle(link, bounced=any(setting.disruptive for setting in changed))
    outcomes = []
    for setting, place, tuned in done:
        # What only some ends have is seen by the outcome of the others.
        everywhere = all(other.outcome.holds for same, _, other in done if same is setting)
        outcomes.append(change.check_effect(setting, place, tuned) if everywhere else tuned)
    # What was set anew is not in force any more.
    link.tunings = (*(one for one in link.tunings if one.name not in asked), *outcomes)
    link.tried += outcomes
    return tuple(outcomes)


def settle(link: Link, bounced: bool) -> None:
    """See how the ends are now; a link that a setting may have taken down (``bounced``) is waited for first."""
    if bounced:
        await_links(link, same=False)
    link.states = tuple(read_interface(end.shell, end.device) for end in link.ends)
    if not bounced:
        return
    segments = [[link.ends[index] for index in segment] for segment in link.combination.topology.segments]
    link_checks.check_reachable(segments, link.states, isolated=False)


@contextmanager
def tuned(link: Link, tuning: Tuning, on_failure: Callable[[str], None]) -> Iterator[Sequence[Tuned]]:
    """Be tuned for a while, and be another combination meanwhile: what is measured now is not the same figure.

    ``on_failure`` is told what could not be taken back. Raises as ``apply``, and LabError where something could not be
    taken back: figures without it would be figures with it.
    """
    undo = UndoStack()
    failures: list[str] = []
    before, combination = link.tunings, link.combination
    bounced = any(setting.disruptive for setting in in_order(dict(tuning.settings)))
    try:
        outcomes = apply(link, tuning, undo)
        link.combination = replace(combination, tuning=together(combination.tuning, tuning))
        yield outcomes
    finally:
        failures = undo.close()
        for failure in failures:
            on_failure(failure)
        link.tunings, link.combination = before, combination
        if not failures:
            settle(link, bounced)
    if failures:
        raise LabError("; ".join(failures), "look at the node; it is booted before its next use")


def _booting_at_failure(link: Link, undo: UndoStack) -> change.Register:
    """Add to ``undo``; a node on which something cannot be taken back is booted before anybody uses it again."""
    sessions = {end.endpoint.node.name: end.session for end in link.ends}

    def register(what: str, step: Callable[[], object], node: str) -> None:
        def or_boot() -> None:
            try:
                with doing(f"take back {what}"):
                    step()
            except Exception:
                sessions[node].reset_due = True
                raise

        undo.add(what, or_boot, node)

    return register


def _places(link: Link, where: Where) -> list[Place]:
    """The devices of these ends, the one under test first; one of each node for what belongs to a node."""
    under_test = link.dut.endpoint.node.name
    found: list[Place] = []
    for index, end in enumerate(link.ends):
        node = end.endpoint.node.name
        if not where.everywhere and node != under_test:
            continue
        if where.per_node and any(place.node == node for place in found):
            continue
        found.append(Place(end.shell, end.device, str(end.endpoint), node, _others(link, index)))
    return found


def _others(link: Link, index: int) -> tuple[str, ...]:
    segment = next(segment for segment in link.combination.topology.segments if index in segment)
    return tuple(link.ends[other].ip for other in segment if other != index)
