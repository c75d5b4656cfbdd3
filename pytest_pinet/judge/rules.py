"""Rules: each judges one value by one limit, from one side, and formats itself with values and units."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from pytest_pinet.model.quantities import Share
from pytest_pinet.model.verdict import Verdict


@dataclass(frozen=True)
class Rule(ABC):
    """A limit with its values filled in; its text in reports is ``94% of 941.5 Mbit/s (lab.yaml:9)``.

    ``source`` says where the limit was written. ``marginal``: a value that meets the limit by less than this share of
    the limit is marginal.
    """

    source: str
    marginal: Share | None

    @property
    def noun(self) -> str:
        """What is limited, as the beginning of a sentence; empty if the value needs no name."""
        return ""

    @property
    def at_most(self) -> bool:
        """Whether the limit is a maximum."""
        return False

    @property
    @abstractmethod
    def threshold(self) -> float:
        """The last value that meets the limit, in the unit of the judged value."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The limit with its unit, as it was configured."""

    @abstractmethod
    def show(self, value: float) -> str:
        """Return a value with its unit."""

    def __str__(self) -> str:
        return f"{self.words} ({self.source})"

    def judge(self, value: float) -> tuple[Verdict, str]:
        """Return PASS, MARGINAL or FAIL, with a sentence; INVALID for a value that is not finite."""
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
        """Return the difference from the limit, in brackets; empty if percents of percents would confuse."""
        return ""

    def _is_close(self, value: float) -> bool:
        """Return whether a value that meets the limit lies inside the marginal band; a limit of zero has no band."""
        if self.marginal is None:
            return False
        return abs(value - self.threshold) < self.marginal.fraction * self.threshold
