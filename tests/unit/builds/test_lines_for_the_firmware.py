"""Lines for cmdline.txt and config.txt that the kernel or the firmware would read otherwise; folders named as files."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import ConfigError

CONTROL = "expected one line without control characters, got"
LINES = [
    ("a=b\0c", f"{CONTROL} '\\x00' in 'a=b c'"),
    ("a=\x1b[31m", f"{CONTROL} '\\x1b' in 'a= [31m'"),
    ("a=b\x85c", f"{CONTROL} '\\x85' in 'a=b c'"),
    ("a=b\x85", f"{CONTROL} '\\x85' in 'a=b '"),
    ("a=b\x0bc", f"{CONTROL} '\\x0b' in 'a=b c'"),
    ("a=b\u2028c", f"{CONTROL} '\\u2028' in 'a=b c'"),
]
QUOTE = "a quote has no end, so the kernel takes the rest as one value, in"


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_build(str(path))
    return str(caught.value)


@pytest.mark.parametrize(("line", "says"), [*LINES, ('a="b c', f"{QUOTE} 'a=\"b c'")])
def test_a_command_line_is_one_line_of_whole_words(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "cmdline.txt"
    file.write_bytes(f"\n{line}\n".encode())
    assert refused(tmp_path) == f"{file}:2: cmdline.txt: {says}"
    file.unlink()
    settings = tmp_path / "build.yaml"
    escaped = line.encode("unicode_escape").decode().replace('"', '\\"')
    settings.write_text(f'name: x\ncmdline: "{escaped}"\n')
    assert refused(settings) == f"{settings}:2: cmdline: {says}"


@pytest.mark.parametrize(("line", "says"), LINES)
def test_a_line_of_config_txt_has_no_control_characters(tmp_path: Path, line: str, says: str) -> None:
    file = tmp_path / "config.txt"
    file.write_bytes(f"# comment\r\ndtparam=x\r\n{line}\r\n".encode())
    assert refused(tmp_path) == f"{file}:3: config.txt: {says}"


def test_quoted_words_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "cmdline.txt").write_text('dyndbg="file r8152.c +p" quiet\r\n')
    (tmp_path / "config.txt").write_text("dtparam=a\t# tab\r\n")
    found = load_build(str(tmp_path))
    assert found.cmdline == ('dyndbg="file', "r8152.c", '+p"', "quiet")
    assert found.config == ("dtparam=a\t# tab",)


def test_an_option_of_a_module_has_no_open_quote(tmp_path: Path) -> None:
    settings = tmp_path / "build.yaml"
    settings.write_text("options:\n  r8152: {x: 'a\"'}\n")
    assert refused(settings) == f"{settings}:2: options.r8152.x: {QUOTE} 'a\"'"


@pytest.mark.parametrize("name", [".dtbo", "vc4.dtbo", ".dtb"])
def test_a_folder_named_as_a_device_tree_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.txt").write_text("dtparam=x\n")
    for folder in (tmp_path / "overlays" / name, tmp_path / name):
        folder.mkdir(parents=True)
        (folder / "a.dtbo").write_bytes(b"\xd0\x0d\xfe\xed" + bytes(60))
        assert refused(tmp_path) == f"{tmp_path}: {folder} is a folder; expected a file such as overlays/vc4.dtbo"
        assert refused(folder) == f"{folder}: {folder} is a folder; expected a file such as overlays/vc4.dtbo"
        rmtree(tmp_path / folder.relative_to(tmp_path).parts[0])
    (tmp_path / ".dtbo").write_bytes(b"")
    assert refused(tmp_path).endswith("/.dtbo has no name before its ending; expected a file such as overlays/vc4.dtbo")


@pytest.mark.parametrize("name", [".dtbo", "vc4.dtbo", ".dtb"])
def test_an_empty_folder_named_as_a_device_tree_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "build" / "overlays" / name
    folder.mkdir(parents=True)
    (folder.parent / "a.dtbo").write_bytes(b"\xd0\x0d\xfe\xed" + bytes(60))
    says = f"{folder} is a folder; expected a file such as overlays/vc4.dtbo"
    assert refused(tmp_path / "build").endswith(f": {says}")
    settings = tmp_path / "build.yaml"
    settings.write_text(f"overlays: {folder.parent}\n")
    assert refused(settings) == f"{settings}:1: {says}"
