"""The identity of a combination: stable across runs, without node names or measured values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CombinationId:
    """An id such as ``pi4b:onboard/pair``, or ``pi4b:onboard/pair/rps=all`` with the key of a tuning."""

    board: str
    nic: str
    topology: str
    tuning: str = ""

    def __str__(self) -> str:
        return f"{self.board}:{self.nic}/{self.topology}{f'/{self.tuning}' if self.tuning else ''}"
