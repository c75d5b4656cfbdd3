"""Rules: each holds one value against one limit, from one side, and prints itself with values and units."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from pytest_pinet.model.quantities import Share
from pytest_pinet.model.verdict import Verdict


@dataclass(frozen=True)
class Rule(ABC):
    """A limit with its values filled in; its text is what reports call the rule: ``94% of 941.5 Mbit/s (lab.yaml:9)``.

    ``source`` says where it was written; ``marginal`` is the part of the limit within which a value that holds it is
    marginal.
    """

    source: str
    marginal: Share | None

    # What is limited, as the beginning of a sentence; empty where the figure speaks for itself.
    noun: ClassVar[str] = ""
    at_most: ClassVar[bool] = False

    @property
    @abstractmethod
    def threshold(self) -> float:
        """The last value that holds, in the unit of what is judged."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The limit with its unit, as it was set."""

    @abstractmethod
    def show(self, value: float) -> str:
        """A value with its unit."""

    def __str__(self) -> str:
        return f"{self.words} ({self.source})"

    def judge(self, value: float) -> tuple[Verdict, str]:
        """PASS, MARGINAL or FAIL, with a sentence; INVALID for what is no number."""
        noun = f"{self.noun} " if self.noun else ""
        if not math.isfinite(value):
            return Verdict.INVALID, f"{noun}{value} is no number: a measurement error"
        shown, limit = self.show(value), self.show(self.threshold)
        difference = self._difference(value)
        if value > self.threshold if self.at_most else value < self.threshold:
            side = "above" if self.at_most else "below"
            return Verdict.FAIL, f"{noun}{shown} is {side} the limit {limit}{difference}"
        holds = f"{noun}{shown} holds the limit {limit}{difference}"
        if self._is_close(value):
            return Verdict.MARGINAL, f"{holds}, within the marginal band of {self.marginal}"
        return Verdict.PASS, holds

    def _difference(self, value: float) -> str:
        """How far from the limit, in brackets; nothing where percents of percents would confuse."""
        return ""

    def _is_close(self, value: float) -> bool:
        """Whether a value that holds lies inside the band; of a limit of zero there is none."""
        if self.marginal is None:
            return False
        return abs(value - self.threshold) < self.marginal.fraction * self.threshold
