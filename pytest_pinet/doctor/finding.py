"""The finding of a check: the values behind the text and the JSON of ``pinet doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_pinet.errors import ConfigError, LabError, UnsupportedError


class Status(StrEnum):
    """The result of a check.

    ``unknown`` is neither good nor bad: the lab gives no information about it. ``not checked``: an earlier check that
    this one depends on has failed.
    """

    OK = "ok"
    UNKNOWN = "unknown"
    NOT_CHECKED = "not checked"
    WRONG = "wrong"

    def __str__(self) -> str:
        return self.value


# The status of a node is the last of these among its findings.
SEVERITY = (Status.OK, Status.UNKNOWN, Status.NOT_CHECKED, Status.WRONG)


@dataclass(frozen=True)
class Finding:
    """One result of one check: of a node, or (``node`` None) of the lab as a whole.

    ``act`` says who fixes a fault and with which command. ``mistake`` marks an error in what the user wrote.
    """

    check: str
    status: Status
    node: str | None = None
    message: str = ""
    act: str = ""
    mistake: bool = False

    @classmethod
    def of(cls, check: str, error: Exception, node: str | None = None) -> Finding:
        """Return the finding of an error: wrong, or unknown if the hardware gives no information."""
        if isinstance(error, ConfigError):
            return cls(check, Status.WRONG, node, str(error), "correct it there; pinet check FILE reads it again", True)
        if isinstance(error, LabError):
            return cls(check, Status.WRONG, node, error.message, error.act)
        status = Status.UNKNOWN if isinstance(error, UnsupportedError) else Status.WRONG
        return cls(check, status, node, str(error))

    def as_json(self) -> dict[str, str | None]:
        """Return one entry of ``pinet doctor --json``."""
        return {
            "check": self.check,
            "status": str(self.status),
            "node": self.node,
            "message": self.message,
            "act": self.act,
        }
