"""The ends of iperf3's traffic."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.iperf3_ends import Ends


@pytest.fixture
def ends() -> Iterator[Ends]:
    """Yield this machine as both ends. No process may be left afterwards."""
    ends = Ends()
    yield ends
    assert ends.left_behind() == []
