"""Lab files of release 0.1 and the paths that they contain stay valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from labgrid import Environment
from labgrid.factory import target_factory

from pytest_pinet.config.labfile import load

FOLDER = Path(__file__).parents[2] / "data" / "labs"
FILES = sorted(FOLDER.glob("0.1-*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_lab_file_of_release_0_1_is_read(file: Path) -> None:
    lab = load(file)

    assert lab.nodes
    assert lab.switches


def test_the_module_that_lab_files_import_registers_their_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    for file in FILES:
        for name in re.findall(r"\$(LG_[A-Z0-9_]+)", file.read_text()):
            monkeypatch.setenv(name, "from the launcher")
        # labgrid reads the file, imports the module, and finds each driver of each target by its name.
        environment = Environment(str(file))
        targets = environment.config.get_targets()
        used = {name for target in targets.values() for name in target["drivers"]}

        assert environment.config.get_imports() == ["pytest_pinet.lab.drivers"]
        assert {"PiSerialDriver", "PiShellDriver"} <= used
        assert used <= set(target_factory.drivers)
