"""The wheel that users install, in an environment and a folder without access to the checkout."""

from __future__ import annotations

import configparser
import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LAB = ROOT / "lab" / "virtual.yaml"
# The project has no address yet. With one, each link of the README on the page of an index is absolute.
ADDRESS = "https://git.example.org/lab/pytest-pinet"
PLAIN = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="*", topology="pair", min="94%")
def test_line_rate(link, gate):
    gate.tcp(link, direction="tx", streams=1)
"""


def sources(*under: str) -> list[str]:
    """Return the files of the checkout that are in git, or would be after `git add`."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *under]
    try:
        names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return sorted({name for name in names if (ROOT / name).is_file() or (ROOT / name).is_symlink()})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and from its content the wheel. Return the folder with both."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in sources():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    settings = tree / "pyproject.toml"
    settings.write_text(settings.read_text().replace('\naddress = ""\n', f'\naddress = "{ADDRESS}"\n'))
    command = [sys.executable, "-m", "build", "--outdir", str(out), str(tree)]
    done = subprocess.run(command, cwd=out, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Deprecat" not in done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


class Installed:
    """The wheel in its own environment. Commands run in a folder outside the checkout."""

    def __init__(self, environment: Path, folder: Path) -> None:
        self.bin = environment / "bin"
        self.folder = folder

    def run(self, *command: str, code: int = 0, state: str = "") -> str:
        """Return the output of the command, which must exit with ``code``. ``state`` is the user's state folder."""
        clean = {n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "PYTEST", "PINET", "LG_"))}
        clean |= {"XDG_STATE_HOME": state} if state else {}
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.folder, env=clean, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    environment = tmp_path_factory.mktemp("environment")
    found = Installed(environment, tmp_path_factory.mktemp("elsewhere"))
    venv.create(environment, with_pip=True)
    told = found.run("pip", "--disable-pip-version-check", "install", "--quiet", f"{wheel}[virtual]")
    assert told == "", "pip has nothing to warn of"
    (found.folder / "lab.yaml").write_text(LAB.read_text())
    yield found
    found.run("pinet", "lab", "down", "--lab", "lab.yaml")


@pytest.mark.smoke
def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    packaged = sorted(name for name in names if ".dist-info/" not in name and ".data/" not in name)
    # The labs are in the checkout once, in lab/. The package has a link to this folder.
    labs = [name.replace("lab/", "pytest_pinet/labs/", 1) for name in sources("lab")]
    man = {name.rpartition(".data/data/share/man/man1/")[2] for name in names if ".data/" in name}
    assert man == {name.rpartition("/")[2] for name in sources("docs/man")}
    assert packaged == sorted([name for name in sources("pytest_pinet") if name != "pytest_pinet/labs"] + labs)


@pytest.mark.smoke
def test_the_sdist_holds_the_checkout(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    wanted = {name for name in sources() if not name.startswith(".git")}
    assert wanted - names == set()
    assert not [name for name in names if "__pycache__" in name]


@pytest.mark.smoke
def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    files = {name.partition(".dist-info/")[2]: name for name in archive.namelist() if ".dist-info/" in name}
    metadata = email.message_from_string(archive.read(files["METADATA"]).decode())
    # The plugin for QEMU, which is in the wheel as source, has a licence of its own.
    assert metadata["License-Expression"] == "MIT AND GPL-2.0-or-later"
    licences = ["LICENSE", "LICENSES/GPL-2.0-or-later.txt"]
    assert metadata.get_all("License-File") == licences
    assert [name for name in licences if f"licenses/{name}" not in files] == []
    plugin = archive.read("pytest_pinet/exact/plugin/count.c").decode()
    assert "SPDX-License-Identifier: GPL-2.0-or-later" in plugin
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra", [])) == {
        "cli",
        "snmp",
        "virtual",
        "postgres",
        "docs",
        "dev",
    }
    readme = str(metadata.get_payload())
    assert f"[Glossary]({ADDRESS}/blob/HEAD/docs/glossary.md)" in readme
    assert re.findall(r"\]\((?!https://)[^)]+\)", readme) == []
    assert metadata.get_all("Project-URL") == [f"Source, {ADDRESS}", f"Changelog, {ADDRESS}/blob/HEAD/CHANGELOG.md"]
    entries = configparser.ConfigParser()
    entries.read_string(archive.read(files["entry_points.txt"]).decode())
    assert dict(entries["pytest11"]) == {"pinet": "pytest_pinet.plugin"}
    assert dict(entries["console_scripts"]) == {"pinet": "pytest_pinet.cli:main"}


@pytest.mark.smoke
def test_installed_commands_work_away_from_the_checkout(installed: Installed) -> None:
    installed.run("pip", "check")
    where = installed.run("python", "-c", "import pytest_pinet; print(pytest_pinet.__file__)")
    assert where.startswith(str(installed.bin.parent))
    assert re.fullmatch(r"pinet, version [0-9.]+\n", installed.run("pinet", "--version"))
    assert installed.run("pinet", "check", "lab.yaml").startswith("lab.yaml: ok, lab virtual: 6 nodes")
    for group, file in ("lab", "config/lab.schema.json"), ("history", "report/results.schema.json"):
        assert installed.run("pinet", group, "schema") == (ROOT / "pytest_pinet" / file).read_text()


@pytest.mark.smoke
def test_an_installed_plugin_collects_a_plain_test_file(installed: Installed) -> None:
    (installed.folder / "test_probe.py").write_text(PLAIN)
    told = installed.run("pytest", "--collect-only", "-q", "--strict-markers", "--pinet-lab=lab.yaml", "test_probe.py")
    assert "test_probe.py::test_line_rate[pi4b:rtl8153/pair]" in told.splitlines()
    assert "3 tests collected" in told


@pytest.mark.smoke
def test_an_installed_gate_warns_of_nothing_of_its_own(installed: Installed) -> None:
    """`pinet gate` imports the plugin before pytest does.

    pytest warns of this, and a project may turn warnings into errors.
    """
    (installed.folder / "new.yaml").write_text("sysctls: {net.core.rmem_max: 1000000}\n")
    (installed.folder / "strict.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (installed.folder / "test_probe.py").write_text(PLAIN)
    words = ("--lab", "lab.yaml", "-c", "strict.ini", "--pinet-dry-run", "test_probe.py")
    told = installed.run("pinet", "gate", "new.yaml", *words)
    assert "3 planned" in told
    assert "arning" not in told


@pytest.mark.smoke
def test_labs_and_suites_have_names_away_from_the_checkout(installed: Installed) -> None:
    assert installed.run("pinet", "check").startswith("virtual: ok, lab virtual: 6 nodes")
    assert "pi4b:onboard/pair" in installed.run("pinet", "matrix", "--lab", "published")
    words = ("--pinet-lab=virtual", "--collect-only", "-q", "--strict-markers", "--pyargs")
    # All suites, and one of them: pytest itself gives no file to the ids of the latter.
    for chosen in ("pytest_pinet.suites", "pytest_pinet.suites.test_line_rate"):
        ids = installed.run("pytest", *words, chosen).splitlines()
        assert "test_line_rate.py::test_onboard[pi3b:onboard/pair-tx]" in ids


@pytest.mark.smoke
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_an_installed_demo_passes_fails_and_passes_and_is_removed(installed: Installed) -> None:
    """From the wheel alone: the packaged lab, a packaged suite, the report. Nothing is written into the package.

    At a tenth of the rate, because emulated boards of other tests use the processors at the same time.
    """
    state = str(installed.folder / "state")
    package = Path(installed.run("python", "-c", "import pytest_pinet; print(*pytest_pinet.__path__)").strip())
    before = files_of(package)
    said = installed.run("pinet", "demo", "--yes", "--scale", "0.1", state=state)
    assert said.index("undo      pinet demo --remove") < said.index("1 of 3")
    assert re.findall(r"1 measured: 1 (\w+)", said) == ["pass", "fail", "pass"]
    report = re.search(r"^report: (/\S+)$", said, re.MULTILINE)
    assert report is not None
    assert "pi3b:onboard/pair" in Path(report[1]).read_text()
    assert "\n  scale: 0.1 " in Path(report[1]).with_name("lab.yaml").read_text()
    assert files_of(package) == before
    assert installed.run("pinet", "lab", "status", "--lab", ".pinet/demo/lab.yaml", code=1).endswith("is down\n")
    assert "removed: 1 folder, 0 system packages" in installed.run("pinet", "demo", "--remove", "--yes", state=state)
    assert not Path(report[1]).parent.exists()
    assert not list(Path(state).iterdir())


@pytest.fixture(scope="module")
def installers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of uv, uvx and pipx, in an environment of their own."""
    environment = tmp_path_factory.mktemp("installers")
    venv.create(environment, with_pip=True)
    words = [str(environment / "bin" / "pip"), "install", "--quiet", "uv", "pipx"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        pytest.skip(f"pip cannot install uv and pipx: {done.stderr.strip().splitlines()[-1]}")
    return environment / "bin"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "prefix"),
    [
        pytest.param("true", "uvx --from '{wheel}' ", id="uvx"),
        pytest.param("uv tool install --with-executables-from pytest,labgrid '{wheel}'", "", id="uv tool"),
        pytest.param("pipx install --include-deps '{wheel}'", "", id="pipx"),
        pytest.param("true", "pipx run --spec '{wheel}' ", id="pipx run"),
    ],
)
def test_uv_and_pipx_install_the_commands_for_a_user_without_settings(
    before: str, prefix: str, wheel: Path, installers: Path, tmp_path: Path
) -> None:
    """The commands of the tutorial, with the wheel in place of the name."""
    kept = {name: text for name, text in os.environ.items() if name.startswith(("SSL_", "PIP_", "UV_"))}
    path = f"{tmp_path}/.local/bin:{installers}:/usr/bin:/bin"
    dry_run = "pytest --pyargs pytest_pinet.suites --pinet-lab=virtual --pinet-dry-run -k 'pi3b and onboard'"
    commands = [f"{prefix}pinet --version", f"{prefix}pinet check virtual"]
    # pipx run starts the command of the package alone, not the commands of its dependencies.
    commands += [] if "pipx run" in prefix else [f"{prefix}{dry_run}"]
    said = []
    for command in (before, *commands):
        done = subprocess.run(
            ["bash", "-c", command.format(wheel=f"{wheel}[virtual]")],
            cwd=tmp_path, env={**kept, "HOME": str(tmp_path), "PATH": path}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        said.append(done.stdout)
    _, version, checked, *planned = said
    assert re.fullmatch(r"pinet, version [0-9.]+\n", version)
    assert checked.startswith("virtual: ok, lab virtual: 6 nodes")
    assert all("6 planned" in text for text in planned)


def files_of(package: Path) -> set[Path]:
    return {path for path in package.rglob("*") if "__pycache__" not in path.parts}
