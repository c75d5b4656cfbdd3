"""Takes the devices of a link from the managers of their nodes, and gives them back."""

from __future__ import annotations

from pytest_pinet.errors import LinkError
from pytest_pinet.execution.deadline import Deadline
from pytest_pinet.execution.undo import UndoStack
from pytest_pinet.lab.link.end import End, change, read_surroundings
from pytest_pinet.lab.link.manager import Holding, Surroundings
from pytest_pinet.tuning.journal import JournalEntry

# How long a manager may take to release a device, and to configure it again (a slow DHCP server included).
RELEASE_TIMEOUT_S = 15.0
RESUME_TIMEOUT_S = 60.0
# NetworkManager's commands take seconds on a slow board.
COMMAND_TIMEOUT_S = 30.0


def take(end: End, around: Surroundings, undo: UndoStack) -> None:
    """Make the manager of the device release it, until ``undo`` or until the guard of the node gives it back.

    Call it before the switch ports change, so that the manager sees the device only in its own network. The guard also
    removes our address, so a device that stays managed has one, too. Does nothing without a manager. Raises LinkError.
    """
    if around.holding is None:
        return
    what = f"address {end.address} of {end.shell.name} {end.device}"
    script = f"ip addr del {end.address} dev {end.device} 2>/dev/null"
    holding = around.to_take
    if holding is not None:
        what = f"{end.device} of {end.shell.name} taken from {holding.manager}"
    # The exit status of the script is that of its last command. An address that is gone is no failure.
    entry = JournalEntry.new(what, f"{script}\n{':' if holding is None else holding.giving_back(end.device)}")
    before = around.holding
    end.session.guard.start()
    undo.add(what, lambda: _give_back(end, before, entry), end.shell.name)
    change(end.shell, entry.kept())
    if holding is None:
        return
    change(end.shell, holding.taking(end.device), COMMAND_TIMEOUT_S)
    # NetworkManager answers first; only later it releases the device and takes it down.
    if not Deadline(RELEASE_TIMEOUT_S).wait_until(lambda: read_surroundings(end).to_take is None):
        raise LinkError(
            f"{holding.manager} of {end.shell.name} still configures {end.device} {RELEASE_TIMEOUT_S:.0f} s after "
            f"'{holding.taking(end.device)}'",
            f"on {end.shell.name}: look at {holding.manager}, or remove {end.device} from its configuration",
        )


def _give_back(end: End, before: Holding, entry: JournalEntry) -> None:
    """Give the device back, and wait until the manager has configured it as before. Raises LinkError."""
    change(end.shell, entry.undone(), COMMAND_TIMEOUT_S)
    now: Holding | None = None

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
