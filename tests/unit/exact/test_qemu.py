"""Which QEMU an exact board uses, what is said if there is none or an old one, and the plugin for it."""

import shutil
from pathlib import Path

import pytest

from pytest_pinet.errors import CapabilityError, LabError
from pytest_pinet.exact.measure import exact_boards
from pytest_pinet.exact.qemu import PROGRAM, Qemu, build_plugin, find_qemu, plugin_for, unpacked_folder

BOARDS = exact_boards()
E1000E, IGB = BOARDS["e1000e"], BOARDS["igb"]
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.fixture(autouse=True)
def own_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("PINET_QEMU", raising=False)


def program(path: Path, version: str) -> Path:
    """Write a program that prints a version as QEMU does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'QEMU emulator version {version}'\n")
    path.chmod(0o755)
    return path


def test_the_machines_own_qemu_is_used(tmp_path: Path) -> None:
    own = program(tmp_path / "bin" / PROGRAM, "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)")
    found = find_qemu(E1000E)
    assert (found.command, found.version_text, found.plugin_api) == ((str(own),), "7.2.22", 1)


def test_a_board_that_needs_a_newer_qemu_uses_the_unpacked_one(tmp_path: Path) -> None:
    program(tmp_path / "bin" / PROGRAM, "7.2.22")
    newer = program(unpacked_folder() / "usr" / "bin" / PROGRAM, "10.0.2")
    (unpacked_folder() / "usr" / "lib" / "x86_64-linux-gnu" / "qemu").mkdir(parents=True)
    found = find_qemu(IGB)
    assert found.command == (str(newer), "-L", str(unpacked_folder() / "usr" / "share" / "qemu"))
    assert found.environment == {"QEMU_MODULE_DIR": str(unpacked_folder() / "usr/lib/x86_64-linux-gnu/qemu")}
    assert (found.version_text, found.plugin_api) == ("10.0.2", 4)
    assert find_qemu(E1000E).version_text == "7.2.22"


def test_an_old_qemu_is_one_sentence(tmp_path: Path) -> None:
    own = program(tmp_path / "bin" / PROGRAM, "7.2.22")
    message = f"^the exact board igb needs QEMU 8.0, but {own} is QEMU 7.2.22: run `pinet emulated qemu`, which "
    with pytest.raises(CapabilityError, match=message):
        find_qemu(IGB)


def test_a_missing_qemu_is_one_sentence() -> None:
    with pytest.raises(LabError, match=f"^exact boards need {PROGRAM}, which this machine lacks\n  -> apt install "):
        find_qemu(E1000E)


def test_the_variable_names_a_program_or_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "other" / "usr" / "bin" / PROGRAM, "10.0.2")
    for named in (tmp_path / "other", tmp_path / "other" / "usr" / "bin" / PROGRAM):
        monkeypatch.setenv("PINET_QEMU", str(named))
        assert find_qemu(IGB).version_text == "10.0.2"
    monkeypatch.setenv("PINET_QEMU", str(tmp_path / "none"))
    with pytest.raises(LabError, match=rf"^PINET_QEMU names {tmp_path}/none, which is neither {PROGRAM} nor a folder"):
        find_qemu(IGB)


@pytest.mark.parametrize(
    ("version", "api"), [("7.2", 1), ("8.2.1", 1), ("9.0", 2), ("9.1.3", 3), ("9.2", 4), ("10.0", 4)]
)
def test_each_qemu_has_a_plugin_interface(version: str, api: int) -> None:
    assert Qemu(("qemu",), tuple(map(int, version.split("."))), "").plugin_api == api


def test_without_a_compiler_the_reason_says_how_to_get_one() -> None:
    found = build_plugin(Qemu(("qemu",), (7, 2), ""))
    assert found.path is None
    assert found.missing == (
        "instructions are not counted by function: this machine has no C compiler: `apt install gcc libc6-dev`"
    )


def test_a_compiler_that_fails_is_a_reason(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cc").write_text("#!/bin/sh\necho 'stdint.h: No such file or directory' >&2\nexit 1\n")
    (tmp_path / "bin" / "cc").chmod(0o755)
    found = build_plugin(Qemu(("qemu",), (7, 2), ""))
    assert found.path is None
    assert found.missing.endswith("failed with exit code 1: stdint.h: No such file or directory")


@needs_cc
@pytest.mark.parametrize("version", [(7, 2), (10, 0)])
def test_the_plugin_is_built_once(version: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    first = build_plugin(Qemu(("qemu",), version, ""))
    assert first.path is not None
    assert b"qemu_plugin_install" in first.path.read_bytes()
    monkeypatch.setenv("PATH", "/nowhere")
    assert build_plugin(Qemu(("qemu",), version, "")) == first


def test_two_processors_are_counted_by_old_versions_only() -> None:
    newer = plugin_for(Qemu(("qemu",), (10, 0, 2), ""), 2)
    assert newer.path is None
    assert newer.missing.startswith("with 2 processors, instructions are counted by function with QEMU 7.2 only:")
    # These two only lack a compiler here.
    for qemu, processors in ((Qemu(("qemu",), (10, 0, 2), ""), 1), (Qemu(("qemu",), (7, 2, 22), ""), 2)):
        assert plugin_for(qemu, processors).missing.endswith("has no C compiler: `apt install gcc libc6-dev`")
