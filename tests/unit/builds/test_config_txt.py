"""config.txt as the firmware evaluates it, and the lines that a build adds."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

import pytest

from pytest_pinet.builds.config_txt import OTHER, evaluate, model_of, pi_models
from pytest_pinet.builds.load import load_build
from tests.support.build_files import refused


def settings(config: str, board: str = "pi4b", tryboot: bool = False, **more: str) -> dict[str, str]:
    files = {"config.txt": config, **{f"{name}.txt": text for name, text in more.items()}}
    return dict(evaluate(files.get, model_of(None, board), tryboot=tryboot).settings)


@pytest.mark.parametrize(
    ("section", "boards"),
    [
        ("pi1", {"pib", "cm1"}),
        ("cm1", {"cm1"}),
        ("0xzz", set()),
        ("board-type=", set()),
        ("pi2", {"pi2b", "pi2b-1.2"}),
        ("pi3", {"pi3b", "pi3b+", "pi3a+", "cm3", "cm3+"}),
        ("pi3+", {"pi3b+", "pi3a+"}),
        ("pi4", {"pi4b", "pi400", "cm4", "cm4s"}),
        ("pi400", {"pi400"}),
        ("cm4", {"cm4"}),
        ("pi5", {"pi5", "pi500", "cm5"}),
        ("cm5", {"cm5"}),
        ("pi0", {"pi0", "pi0w", "zero2w", "cm0"}),
        ("pi0w", {"pi0w", "zero2w", "cm0"}),
        ("pi02", {"zero2w", "cm0"}),
        ("none", set()),
        ("tryboot", set()),
        ("all", set(pi_models())),
        ("rpi4", set(pi_models())),  # An undefined filter does not filter.
        ("PI5", set(pi_models())),  # Filters are case sensitive.
        ("gpio4=1", set()),
        ("EDID=VSC-TD2220", set()),
    ],
)
def test_a_section_applies_to_its_models(section: str, boards: set[str]) -> None:
    assert {board for board in pi_models() if settings(f"[{section}]\nx=1\n", board)} == boards


@pytest.mark.parametrize(
    ("config", "value"),
    [
        ("x=1\nx=2\n", "2"),
        ("[pi4]\nx=1\n[pi3]\nx=2\n", "1"),
        ("[pi3]\n[pi4]\nx=1\n", "1"),
        ("[pi3]\n[tryboot]\nx=1\n[all]\n", None),
        ("[none]\n[pi4]\nx=1\n", None),
        ("[pi3]\n[all]\nx=1\n", "1"),
        ("x = 1\n", None),
        ("#x=1\n", None),
        ("x=1 # why\n", "1"),
        (f"y={'a' * 97}x=1\n", None),
        ("include more.txt\n", "3"),
        ("[pi3]\ninclude more.txt\n", None),
        ("include gone.txt\nx=1\n", "1"),
        ("include config.txt\nx=1\n", "1"),
    ],
)
def test_lines_that_count(config: str, value: str | None) -> None:
    assert settings(config, more="x=3\n").get("x") == value


def test_a_section_of_a_trial_boot_applies_only_then() -> None:
    config = "[tryboot]\nx=1\n[pi4]\ny=1\n"
    assert settings(config) == {}
    assert settings(config, tryboot=True) == {"x": "1", "y": "1"}


def test_serial_number_and_board_type_are_compared() -> None:
    model = model_of("Raspberry Pi Compute Module 4 Rev 1.1", "?", "10000000abcd1234", 0xB03141)
    files = {
        "config.txt": "[0xabcd1234]\na=1\n[all]\n[0x1]\nb=1\n[all]\n[board-type=0x14]\nc=1\n[board-type=0x11]\nd=1\n"
    }
    assert dict(evaluate(files.get, model).settings) == {"a": "1", "c": "1"}


@pytest.mark.parametrize(
    ("title", "board"),
    [
        ("Raspberry Pi Model B Plus Rev 1.2", "pib"),
        ("Raspberry Pi 2 Model B Rev 1.1", "pi2b"),
        ("Raspberry Pi 2 Model B Rev 1.2", "pi2b-1.2"),
        ("Raspberry Pi 3 Model B Rev 1.2", "pi3b"),
        ("Raspberry Pi 3 Model B Plus Rev 1.3", "pi3b+"),
        ("Raspberry Pi Zero 2 W Rev 1.0", "zero2w"),
        ("Raspberry Pi Zero W Rev 1.1", "pi0w"),
        ("Raspberry Pi 4 Model B Rev 1.4", "pi4b"),
        ("Raspberry Pi Compute Module 4S Rev 1.0", "cm4s"),
        ("Raspberry Pi Compute Module 4 Rev 1.0", "cm4"),
        ("Raspberry Pi 400 Rev 1.0", "pi400"),
        ("Raspberry Pi 5 Model B Rev 1.0", "pi5"),
        ("Raspberry Pi 500 Rev 1.0", "pi500"),
        ("Raspberry Pi Compute Module 5 Lite Rev 1.0", "cm5"),
    ],
)
def test_the_device_tree_names_the_model(title: str, board: str) -> None:
    assert model_of(title, "?") == pi_models()[board]


def test_a_board_of_a_lab_file_is_any_other_model() -> None:
    assert model_of("linux,dummy-virt", "virt") == OTHER


@pytest.mark.parametrize(
    ("boards", "architectures"),
    [
        (("pib", "pi0", "pi0w", "pi2b"), ("arm",)),
        (("pi2b-1.2", "pi3b", "cm3+", "zero2w", "pi4b", "cm4s"), ("arm64", "arm")),
        (("pi5", "pi500", "cm5"), ("arm64",)),
    ],
)
def test_the_processor_of_a_model_starts_kernels_of(boards: tuple[str, ...], architectures: tuple[str, ...]) -> None:
    assert {pi_models()[board].architectures for board in boards} == {architectures}
    assert OTHER.architectures == ("arm64", "arm")


def test_partitions_are_compared() -> None:
    files = {"config.txt": "[boot_partition=2]\na=1\n[boot_partition=3]\nb=1\n[all]\n[partition=2]\nc=1\n"}
    assert dict(evaluate(files.get, model_of(None, "pi4b", partition=2)).settings) == {"a": "1"}


ALL = ("kernel.img", "kernel7.img", "kernel7l.img", "kernel8.img", "kernel_2712.img")


@pytest.mark.parametrize(
    ("board", "config", "kernels"),
    [
        ("pib", "", ["kernel.img"]),
        ("pi0w", "arm_64bit=1\n", ["kernel.img"]),
        ("pi3b", "", ["kernel7.img", "kernel8.img"]),
        ("pi3b", "arm_64bit=1\n", ["kernel8.img"]),
        ("pi2b", "arm_64bit=1\n", ["kernel7.img"]),
        ("pi2b-1.2", "arm_64bit=1\n", ["kernel8.img"]),
        ("zero2w", "arm_64bit=0\n", ["kernel7.img"]),
        ("pi4b", "", ["kernel8.img", "kernel7l.img"]),
        ("pi4b", "arm_64bit=0\n", ["kernel7l.img"]),
        ("pi4b", "arm_64bit=1\n", ["kernel8.img"]),
        ("pi5", "arm_64bit=0\n", ["kernel_2712.img", "kernel8.img"]),
        ("pi5", "kernel=kernel8.img\n", ["kernel8.img"]),
    ],
)
def test_the_kernels_that_a_firmware_may_start(board: str, config: str, kernels: list[str]) -> None:
    found = evaluate({"config.txt": config}.get, pi_models()[board]).files(ALL.__contains__)
    assert [boot.kernel for boot in found] == kernels


@pytest.mark.parametrize(
    ("config", "files", "expected"),
    [
        ("auto_initramfs=1\n", "kernel8.img initramfs8", ("kernel8.img", ("initramfs8",), "")),
        ("auto_initramfs=0\n", "kernel8.img initramfs8", ("kernel8.img", (), "")),
        ("auto_initramfs=1\nkernel=vmlinuz\n", "vmlinuz initramfs8", ("vmlinuz", (), "")),
        ("auto_initramfs=1\nkernel=kernel7l.img\n", "kernel7l.img initramfs7l", ("kernel7l.img", ("initramfs7l",), "")),
        ("initramfs a,b followkernel\n", "kernel8.img a b", ("kernel8.img", ("a", "b"), "")),
        ("ramfsfile=a\n", "kernel8.img a", ("kernel8.img", ("a",), "")),
        ("initramfs gone followkernel\n", "kernel8.img", ("kernel8.img", (), "")),
        ("os_prefix=n/\n", "kernel8.img n/kernel8.img n/bcm2711-rpi-4-b.dtb", ("n/kernel8.img", (), "n/")),
        ("os_prefix=n/\n", "kernel8.img n/kernel8.img", ("kernel8.img", (), "")),  # no device tree there
        ("os_prefix=n/\nkernel=/k\n", "k n/bcm2711-rpi-4-b.dtb", ("k", (), "n/")),
        ("upstream_kernel=1\n", "kernel8.img upstream/kernel8.img upstream/bcm2711-rpi-4-b.dtb",
         ("upstream/kernel8.img", (), "upstream/")),
    ],
)  # fmt: skip
def test_the_files_of_a_boot(config: str, files: str, expected: tuple[str, tuple[str, ...], str]) -> None:
    (boot,) = evaluate({"config.txt": config}.get, pi_models()["pi4b"]).files(files.split().__contains__)
    assert (boot.kernel, boot.initramfs, boot.prefix) == expected


def test_a_file_that_includes_itself_often_ends() -> None:
    """Fifty includes in each of five levels are 300 million files."""
    found = evaluate({"config.txt": "include config.txt\n" * 50 + "arm_64bit=1\n"}.get, pi_models()["pi4b"])
    assert found.settings == {"arm_64bit": "1"}


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
