"""The virtual lab of the statements: at full rate, on whatever machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.gate_project import LAB_FILE, GateLab, NewProject, lab_up, project_maker

SoakCount = Callable[[int, int], None]


@pytest.fixture(scope="session")
def gate_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateLab]:
    """Yield a copy of the default lab, with links at full rate even where `scale: auto` would choose a tenth."""
    text = LAB_FILE.read_text()
    assert text.count("scale: auto") == 1
    file = tmp_path_factory.mktemp("gate-lab") / "virtual.yaml"
    with lab_up(file, text.replace("scale: auto", "scale: 1")) as lab:
        yield lab


@pytest.fixture(scope="session")
def new_project(tmp_path_factory: pytest.TempPathFactory, gate_lab: GateLab) -> NewProject:
    """Make a folder with these test files."""
    return project_maker(tmp_path_factory, gate_lab)
