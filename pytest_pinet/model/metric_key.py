"""The ids of combinations, and the key of one measured value, for limits, baselines, noise and history."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_pinet.model.traffic import Direction, Traffic


@dataclass(frozen=True)
class CombinationId:
    """An id such as ``pi4b:onboard/pair``, or ``pi4b:onboard/pair/rps=all`` with the key of a tuning."""

    board: str
    nic: str
    topology: str
    tuning: str = ""

    @classmethod
    def parse(cls, text: str) -> CombinationId:
        """Read an id. Names contain neither colons nor slashes."""
        board, _, rest = text.partition(":")
        nic, _, rest = rest.partition("/")
        topology, _, tuning = rest.partition("/")
        return cls(board, nic, topology, tuning)

    def __str__(self) -> str:
        return f"{self.board}:{self.nic}/{self.topology}{f'/{self.tuning}' if self.tuning else ''}"


@dataclass(frozen=True)
class MetricKey:
    """One direction of the traffic of one combination; ``direction`` BIDIR is a whole measurement of both directions.

    The text is stable across runs: ``pi4b:onboard/pair/tcp-P1-tx``, or ``pi4b:onboard/pair/tcp-P1-bidir-tx`` for one of
    two directions at once.
    """

    combination: CombinationId
    traffic: Traffic
    direction: Direction

    @property
    def both_ways(self) -> bool:
        """Whether the other direction runs at the same time."""
        return self.traffic.direction is Direction.BIDIR

    def __str__(self) -> str:
        # In topology opposed, both sums are named by the direction of the first pair.
        way = self.direction if self.both_ways else self.traffic.direction
        # The key of bidirectional traffic already contains the direction.
        return f"{self.combination}/{self.traffic.key}{'' if way is Direction.BIDIR else f'-{way}'}"


def within(metric: str, combination: str) -> str:
    """Return the part of a metric's id behind the id of its combination: ``tcp-P1-tx``; empty if there is none."""
    return metric.removeprefix(combination).lstrip("/")


def metric_keys(combination: CombinationId, traffic: Traffic) -> dict[Direction, MetricKey]:
    """Return the key of each one-way direction of this traffic."""
    return {way: MetricKey(combination, traffic, way) for way in traffic.direction.parts}
