"""The protocol of the ways in which a session can measure: at once, only planned, or builds alternately."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from pytest_pinet.judge.profile import Profile
from pytest_pinet.matrix.expansion import CombinationCase
from pytest_pinet.model.lab import Node
from pytest_pinet.model.limits import Limit
from pytest_pinet.model.ping import Ping
from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.traffic import Traffic

if TYPE_CHECKING:
    from pytest_pinet.measure.comparison import State


class MeasuringMode(Protocol):
    """Opens links and measures for a session. ``session.mode`` holds the mode of the run.

    The methods that measure return a record without the values that only the session knows, such as the command that
    repeats the test. They raise PinetError, or end the test with ``pytest.skip``.
    """

    def is_measuring(self, item: pytest.Item) -> bool:
        """Return whether this run of the test sends traffic.

        If not, no node is touched: gate calls return results of earlier boots, or print their plan.
        """

    def open(self, item: pytest.Item, case: CombinationCase) -> AbstractContextManager[Any]:
        """Open the link of a test."""

    def kept_nodes(self, nextitem: pytest.Item | None) -> Sequence[Node]:
        """Return the nodes that stay booted and leased for the next test."""

    def measure(
        self, item: pytest.Item, link: Any, traffic: Traffic, limits: Sequence[Limit], profile: Profile
    ) -> ResultRecord:
        """Measure TCP, UDP or HTTP traffic and judge it by these limits."""

    def ping(self, item: pytest.Item, link: Any, ping: Ping, limits: Sequence[Limit], profile: Profile) -> ResultRecord:
        """Send pings and judge them by these limits."""

    def compare(
        self, item: pytest.Item, link: Any, traffic: Traffic, states: tuple[State, State], tolerance: float
    ) -> ResultRecord:
        """Measure two states of the nodes alternately, and judge the second state by the first."""
