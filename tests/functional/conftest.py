"""The virtual labs that tests of the gate share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.gate_project import GateLab, NewProject, lab_text, lab_up, project_maker


@pytest.fixture(scope="session")
def gate_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateLab]:
    """Yield a copy of the default lab. It runs from the first test that needs it until the end of the session."""
    with lab_up(tmp_path_factory.mktemp("gate-lab") / "virtual.yaml", lab_text()) as lab:
        yield lab


@pytest.fixture(scope="session")
def full_rate_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateLab]:
    """Yield a copy of the default lab with links at full rate. A busy machine may carry only the 100 Mbit/s links."""
    with lab_up(tmp_path_factory.mktemp("full-rate-lab") / "virtual.yaml", lab_text(scale=1)) as lab:
        yield lab


@pytest.fixture(scope="module")
def new_project(tmp_path_factory: pytest.TempPathFactory, gate_lab: GateLab) -> NewProject:
    """Make a folder with these test files."""
    return project_maker(tmp_path_factory, gate_lab)
