"""Small virtual labs that several modules use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.model.lab import Lab
from pytest_pinet.virtual.launcher import launcher
from tests.support.small_virtual_lab import Bench, bench_up, small_lab


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench_up(tmp_path_factory.mktemp("bench")) as found:
        yield found


@pytest.fixture
def pair(bench: Bench) -> Iterator[Bench]:
    """Yield a bench where left (port 1) and right (port 2) are on and have addresses."""
    bench.connect_pair()
    yield bench
    bench.restore()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """Yield a lab that is not up. It is stopped afterwards."""
    found = small_lab(tmp_path)
    yield found
    launcher().down(found)
