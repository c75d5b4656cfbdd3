"""Takes the devices of a link from the managers of their nodes, and gives them back."""

from __future__ import annotations

from pytest_pinet.errors import LinkError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link.end import End, change, read_surroundings
from pytest_pinet.lab.link.manager import ManagedDevice, Surroundings
from pytest_pinet.tuning.journal import JournalEntry

# How long a manager may take to release a device, and to configure it again (a slow DHCP server included).
RELEASE_TIMEOUT_S = 15.0
RESUME_TIMEOUT_S = 60.0
# NetworkManager's commands take seconds on a slow board.
COMMAND_TIMEOUT_S = 30.0


def take(end: End, around: Surroundings, undo: UndoStack) -> None:
    """Make the manager of the device release it, until ``undo`` or until the guard of the node gives it back.

    Call it before the switch ports change, so that the manager sees the device only in its own network. A device that
    stays managed is checked at ``undo``, too. Does nothing without a manager. Raises LinkError.
    """
    before, holding = around.holding, around.to_take
    if before is None:
        return
    end.session.guard.start()
    if holding is None:
        what = f"use of {end.device} of {end.shell.name} beside {before.manager}"
        undo.add(what, lambda: _await_as_before(end, before), end.shell.name)
        return
    what = f"{end.device} of {end.shell.name} taken from {holding.manager}"
    entry = JournalEntry.new(what, holding.giving_back(end.device))

    def give_back() -> None:
        change(end.shell, entry.undone(), COMMAND_TIMEOUT_S)
        _await_as_before(end, before)

    undo.add(what, give_back, end.shell.name)
    change(end.shell, entry.kept())
    change(end.shell, holding.taking(end.device), COMMAND_TIMEOUT_S)
    # NetworkManager answers first; only later it releases the device and takes it down.
    if not Deadline(RELEASE_TIMEOUT_S).wait_until(lambda: read_surroundings(end).to_take is None):
        raise LinkError(
            f"{holding.manager} of {end.shell.name} still configures {end.device} {RELEASE_TIMEOUT_S:.0f} s after "
            f"'{holding.taking(end.device)}'",
            f"on {end.shell.name}: look at {holding.manager}, or remove {end.device} from its configuration",
        )


def _await_as_before(end: End, before: ManagedDevice) -> None:
    """Wait until the manager has configured the device as before. Raises LinkError."""
    now: ManagedDevice | None = None

    def as_before() -> bool:
        nonlocal now
        now = read_surroundings(end).holding
        return now is not None and now.manager == before.manager and (now.settled or not before.settled)

    if not Deadline(RESUME_TIMEOUT_S).wait_until(as_before, interval_s=0.5):
        raise LinkError(
            f"{end.device} is {now or 'not managed'} {RESUME_TIMEOUT_S:.0f} s after it was given back; it was {before}",
            f"look at {before.manager} on {end.shell.name}",
        )
    guard = end.session.guard
    if guard.lapsed:
        raise LinkError(
            f"{end.shell.name} undid all changes of this run, and gave {end.device} back to {before.manager}, while "
            f"the link was open: this run did not renew its guard for {guard.lapses_after_s:.0f} s",
            "repeat the measurement; if the runner was suspended, keep it awake",
        )
