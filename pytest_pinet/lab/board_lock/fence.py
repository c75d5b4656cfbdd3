"""Keeps a process whose lock was taken over from changing the board.

A process that was suspended does not know that another process holds the board now: its next command is already on the
way. Therefore the board itself compares the owner, in the same command.
"""

from __future__ import annotations

import re
import shlex

from pytest_pinet.errors import LeaseError
from pytest_pinet.lab.board_lock.agent import FOLDER, HELD, RUN
from pytest_pinet.lab.labgrid.identity import Holding

REFUSED = 87
_MARK = "pinet-lease: held by"
_HOLDER = re.compile(rf"^{_MARK} ?(.*)$", re.MULTILINE)


def fence(owner: str) -> str:
    """Return the start of a command line that goes on only while this owner's line, or no other, is in the lock.

    An empty lock is one that a crash of the board has lost. It needs no root.
    """
    own = shlex.quote(owner)
    return (
        f'( p={FOLDER} r={RUN}\n{HELD}held; if gone {own} || {{ [ -n "$o" ] && [ "$o" != {own} ]; }};'
        f' then echo {shlex.quote(_MARK)} "$o" >&2; exit 1; fi ) || exit {REFUSED}\n'
    )


def refusal(name: str, returncode: int, error_text: str) -> LeaseError | None:
    """Return the error if the fence has refused a command on the board ``name``; else None."""
    found = _HOLDER.search(error_text) if returncode == REFUSED else None
    if found is None:
        return None
    holding = Holding.of_line(found[1])
    now = f"and is held by {holding}" if holding is not None else "and no user holds it now"
    return LeaseError(
        f"the lock on {name} was lost during the test, {now}: this run changed nothing there any more",
        "run the test again; a machine that was suspended loses its boards",
    )
