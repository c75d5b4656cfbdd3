"""At which share of their rate the links of a lab run that somebody's program makes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """``share`` (above 0, at most 1) of their rate; ``because`` says why it was chosen, empty where it was asked for.

    Figures are told as if links ran at all of it (``traffic.scaled``).
    """

    share: float = 1.0
    because: str = ""

    def __str__(self) -> str:
        why = f" ({self.because})" if self.because else ""
        if self.share == 1:
            return f"links run at full rate{why}"
        return f"links run at {self.share:g} of their rate{why}; figures are told at full rate"
