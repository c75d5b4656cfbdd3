"""Tunings of a link: apply them, read them back, undo them; or boot the device under test with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pytest_pinet.errors import CapabilityError, LabError
from pytest_pinet.evidence.interface import read_interface
from pytest_pinet.evidence.nics import read_board
from pytest_pinet.execution.trace import doing
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link import link_checks
from pytest_pinet.lab.link.end import with_devices
from pytest_pinet.lab.link.link import Link, await_links
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.forms import cuts_management
from pytest_pinet.model.tuning import SettingOutcome, Tuned, Tuning
from pytest_pinet.tuning import boot_settings, change
from pytest_pinet.tuning.nic_settings import HALF
from pytest_pinet.tuning.registry import boot_part, in_order, together
from pytest_pinet.tuning.setting import NoKnob, Setting, SettingPlace, SettingReading, SettingScope


def apply(link: Link, tuning: Tuning, undo: UndoStack) -> tuple[Tuned, ...]:
    """Apply all run-time settings and add their undo to ``undo``. Updates ``link.tunings`` and ``link.tried``.

    Raises LinkError for a link that does not come back, InvalidMeasurement when frames of the requested MTU are lost on
    the way, SshError, LabError. CapabilityError for a setting that may take down the link of our own connection. A
    setting that did not take effect raises no error; its outcome says so.
    """
    wanted = dict(tuning.settings)
    for setting in in_order(wanted):
        for end in link.ends if setting.where.everywhere else (link.dut,):
            if setting.disruptive and end.carries_management:
                raise CapabilityError(cuts_management(setting.name, str(end)))
    register = _booting_at_failure(link, undo)
    done: list[tuple[Setting, SettingPlace, Tuned]] = []
    for setting in in_order(wanted):
        for place in _places(link, setting.where):
            with doing(f"tune {setting.name}={wanted[setting.name]} of {place.end}"):
                done.append((setting, place, change.apply(setting, place, wanted[setting.name], register)))
    changed = [setting for setting, _, tuned in done if tuned.outcome is not SettingOutcome.UNCHANGED]
    if "speed" in wanted:
        _follow_speed(link, wanted["speed"], undo)
    if changed:
        settle(link, bounced=any(setting.disruptive for setting in changed))
    outcomes = []
    for setting, place, tuned in done:
        # Check the effect only if all ends have the setting. Else the outcome of the other ends shows the problem.
        everywhere = all(other.outcome.holds for same, _, other in done if same is setting)
        outcomes.append(change.check_effect(setting, place, tuned) if everywhere else tuned)
    link.add_tunings(outcomes)
    return tuple(outcomes)


def _follow_speed(link: Link, speed: str, undo: UndoStack) -> None:
    """Expect this speed of the NICs of the device under test that came up with it, until ``undo``."""
    before, mbps, half = link.ends, int(speed.removesuffix(HALF)), speed.endswith(HALF)
    ends = []
    for end in before:
        interface = end.endpoint.interface
        own = end.endpoint.node.name == link.dut.endpoint.node.name
        if own and read_interface(end.shell, end.device).speed_mbps == mbps:
            endpoint = replace(end.endpoint, interface=replace(interface, speed_mbps=mbps))
            end = replace(end, endpoint=endpoint, half_duplex=half)
        ends.append(end)
    undo.add("the expected speed", lambda: link.expect(before), link.dut.shell.name)
    link.expect(ends)


def settle(link: Link, bounced: bool) -> None:
    """Read the states of the ends again. With ``bounced``, first wait for links that a setting may have taken down."""
    if bounced:
        await_links(link, same=False)
    link.read_states()
    if not bounced:
        return
    segments = [[link.ends[index] for index in segment] for segment in link.combination.topology.segments]
    link_checks.check_reachable(segments, link.states, isolated=False)


@contextmanager
def tuned(link: Link, tuning: Tuning, on_failure: Callable[[str], None]) -> Iterator[Sequence[Tuned]]:
    """Apply a tuning for the block.

    Until the block ends, ``link.combination`` includes the tuning, so that results with and without it are not mixed.
    ``on_failure`` is called with each setting that could not be undone. Raises the same errors as ``apply``, and
    LabError if a setting could not be undone: later results would be measured with it.
    """
    undo = UndoStack()
    failures: list[str] = []
    before, combination = link.tunings, link.combination
    bounced = any(setting.disruptive for setting in in_order(dict(tuning.settings)))
    try:
        outcomes = apply(link, tuning, undo)
        link.describe(link.tunings, replace(combination, tuning=together(combination.tuning, tuning)))
        yield outcomes
    finally:
        failures = undo.close()
        for failure in failures:
            on_failure(failure)
        link.describe(before, combination)
        if not failures:
            settle(link, bounced)
    if failures:
        raise LabError("; ".join(failures), "look at the node; the next test boots it first")


def _booting_at_failure(link: Link, undo: UndoStack) -> change.Register:
    """Add undo steps to ``undo``. If a step fails, its node is rebooted before its next use."""
    sessions = {end.endpoint.node.name: end.session for end in link.ends}

    def register(what: str, step: Callable[[], object], node: str) -> None:
        def or_boot() -> None:
            try:
                with doing(f"undo {what}"):
                    step()
            except Exception:
                sessions[node].require_boot()
                raise

        undo.add(what, or_boot, node)

    return register


def _places(link: Link, where: SettingScope) -> list[SettingPlace]:
    """Return the devices to set, the device under test first; for a setting of the whole node, one device a node."""
    under_test = link.dut.endpoint.node.name
    found: list[SettingPlace] = []
    for index, end in enumerate(link.ends):
        node = end.endpoint.node.name
        if not where.everywhere and node != under_test:
            continue
        if where.per_node and any(place.node == node for place in found):
            continue
        segment = next(segment for segment in link.combination.topology.segments if index in segment)
        others = tuple(link.ends[other].ip for other in segment if other != index)
        found.append(SettingPlace(end.shell, end.device, str(end.endpoint), node, others))
    return found


def boot_tuned(combination: Combination, sessions: Mapping[str, NodeSession]) -> tuple[Tuned, ...]:
    """Boot the nodes with the boot tunings of the combination; return their outcomes. Raises LabError.

    A node that already runs with these tunings is not rebooted, so that consecutive tests share one boot.
    """
    wanted = boot_part(combination.tuning)
    dut = combination.dut
    session = sessions[dut.node.name]
    for other in sessions.values():
        if other is not session:
            _boot_with(other, Tuning())

    def place(device: str) -> SettingPlace:
        return SettingPlace(session.shell, device, str(dut), dut.node.name)

    if session.boot_tuning != wanted:
        # Read all NICs of the node, since tests of its other NICs share this boot.
        nics = with_devices(dut.node, read_board(session.shell)).interfaces
        before = {nic.name: boot_settings.found(place(nic.device), wanted) for nic in nics}
        try:
            _boot_with(session, wanted, before)
        except NoKnob as why:
            return tuple(boot_settings.unsupported(dut.node.name, wanted, str(why)))
    if not wanted:
        return ()
    # A boot can change the names of NICs.
    nic = with_devices(dut.node, read_board(session.shell)).interface(dut.interface.name)
    return tuple(boot_settings.read_back(place(nic.device), wanted, session.boot_before.get(nic.name, {})))


def _boot_with(
    session: NodeSession, wanted: Tuning, before: Mapping[str, Mapping[str, SettingReading]] | None = None
) -> None:
    if session.boot_tuning == wanted:
        return
    name = session.node.name
    with doing(f"boot {name} with {wanted.key}" if wanted else f"boot {name} without its boot tuning"):
        session.boot_with(wanted, before)
