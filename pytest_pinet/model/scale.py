"""The share of their rate at which a launcher runs the links of a lab."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """The ``share`` (above 0, at most 1) of their rate at which links run.

    ``because`` says why the share was chosen; it is empty if the user set it. Values are converted to full rate
    (``traffic.scaled``).
    """

    share: float = 1.0
    because: str = ""

    def __str__(self) -> str:
        why = f" ({self.because})" if self.because else ""
        if self.share == 1:
            return f"links run at full rate{why}"
        return f"links run at {self.share:g} of their rate{why}; values are converted to full rate"
