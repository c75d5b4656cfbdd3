"""What a check found: the values that the text and the JSON of ``pinet doctor`` are made of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_pinet.errors import ConfigError, LabError, UnsupportedError


class Status(StrEnum):
    """What becomes of a check.

    ``unknown`` is neither good nor bad: it cannot be told with what is there. ``not checked``: what failed before it is
    needed for it.
    """

    OK = "ok"
    UNKNOWN = "unknown"
    NOT_CHECKED = "not checked"
    WRONG = "wrong"

    def __str__(self) -> str:
        return self.value


# Of several findings on one node the last of these is the node's.
SEVERITY = (Status.OK, Status.UNKNOWN, Status.NOT_CHECKED, Status.WRONG)


@dataclass(frozen=True)
class Finding:
    """One result of one check: of a node, or (``node`` None) of the lab as a whole.

    ``act`` says who mends what is wrong, with which command. ``mistake`` marks what the user wrote wrong.
    """

    check: str
    status: Status
    node: str | None = None
    message: str = ""
    act: str = ""
    mistake: bool = False

    @classmethod
    def of(cls, check: str, error: Exception, node: str | None = None) -> Finding:
        """What an error means: wrong, or unknown where the hardware cannot tell."""
        if isinstance(error, ConfigError):
            return cls(check, Status.WRONG, node, str(error), "correct it there; pinet check FILE reads it again", True)
        if isinstance(error, LabError):
            return cls(check, Status.WRONG, node, error.message, error.act)
        status = Status.UNKNOWN if isinstance(error, UnsupportedError) else Status.WRONG
        return cls(check, status, node, str(error))

    def as_json(self) -> dict[str, str | None]:
        """One entry of ``pinet doctor --json``."""
        return {
            "check": self.check,
            "status": str(self.status),
            "node": self.node,
            "message": self.message,
            "act": self.act,
        }
