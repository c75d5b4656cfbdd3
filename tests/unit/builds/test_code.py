"""What differs between two builds beside the order and the addresses of code and data."""

from __future__ import annotations

import lzma
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_pinet.builds.archives import Unreadable
from pytest_pinet.builds.code import compare_builds, compare_modules
from pytest_pinet.builds.load import load_build
from pytest_pinet.evidence import elf
from pytest_pinet.model.build import Build, CodeDifference
from tests.support import build_files as made
from tests.support.driver_builds import CROSS
from tests.support.module_objects import VARIANTS, compile_variant, variant

SAME = CodeDifference()
# What each variant of the module changes.
DIFFERENCES = {
    "plain": SAME,
    "order": SAME,
    "padding": SAME,
    "instructions": CodeDifference(changed=("gem_rx",)),
    "constant": CodeDifference(parts=("table",)),
    "initial": CodeDifference(parts=("budget",)),
    "text": CodeDifference(changed=("configure",), parts=(".rodata.str1.8",)),
    "folder": CodeDifference(changed=("configure",), parts=(".rodata.str1.8",)),
    "pointers": CodeDifference(parts=("operations",)),
    "function": CodeDifference(came=("never_called",)),
}
PLAIN = variant("plain")


@pytest.mark.parametrize("name", VARIANTS)
def test_only_the_changed_parts_of_a_module_are_named(name: str) -> None:
    assert compare_modules(PLAIN, variant(name)) == DIFFERENCES[name]
    assert name == "plain" or variant(name) != PLAIN


def test_a_function_that_came_went_the_other_way() -> None:
    assert compare_modules(variant("function"), PLAIN) == CodeDifference(went=("never_called",))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(f"{CROSS}gcc") is None, reason="needs the cross compiler")
@pytest.mark.parametrize("name", VARIANTS)
def test_the_compiler_of_this_machine_makes_the_same_differences(name: str) -> None:
    assert compare_modules(compile_variant("plain"), compile_variant(name)) == DIFFERENCES[name]


def test_each_other_instruction_and_constant_is_seen() -> None:
    """Change a bit of each octet of the code and the constants: none of these modules may count as the same."""
    data = lzma.decompress(PLAIN)
    for name in (".text", ".rodata", ".data", ".rodata.str1.8"):
        content = elf.section(data, name)
        assert content
        start = data.index(content)
        for at in range(start, start + len(content.rstrip(b"\0"))):
            changed = bytearray(data)
            changed[at] ^= 1 << at % 8
            assert compare_modules(data, bytes(changed)), f"{name}+{at - start:x}"


@pytest.mark.parametrize("value", [0, 1, 0x7F, 0xFF])
def test_damage_at_any_place_is_one_error_or_a_difference(value: int) -> None:
    data = lzma.decompress(PLAIN)
    for at in range(0, len(data), 23):
        try:
            compare_modules(data, data[:at] + bytes([value]) + data[at + 1 :])
        except Unreadable:
            continue


def test_the_place_in_the_sources_is_no_code() -> None:
    text = b"no such key of the device"
    one, other, third = (
        lzma.decompress(variant("folder")).replace(text, name.ljust(len(text), b"\0"))
        for name in (b"at /tmp/a/mac.c:12", b"at /tmp/b/c/mac.c:13", b"at /tmp/b/c/phy.c:13")
    )
    assert not compare_modules(one, other)
    assert compare_modules(one, third)


def test_a_module_for_another_processor_is_not_compared() -> None:
    one, other = (made.module("macb", machine=made.X86_64, srcversion=text) for text in "ab")
    with pytest.raises(Unreadable, match="it is for x86_64"):
        compare_modules(one, other)


def dated_image(date: str, **values: bytes) -> bytes:
    """Return an image that was built at this time, which stands in its version line and in that of ``uname -v``."""
    number = f"#1 SMP PREEMPT {date}".encode()
    plain = made.image(**values).replace(b"#1 SMP PREEMPT @0", number)  # type: ignore[arg-type]
    return plain[:-100] + number.ljust(100, b"\0")


def build(folder: Path, files: Mapping[str, bytes], text: str = "") -> Build:
    """Load a build with a module and a kernel; ``files`` replace its own."""
    own = {"small.ko.xz": PLAIN, "Image": dated_image("@0"), "bcm2711-rpi-4-b.dtb": made.device_tree()}
    made.write(folder, {**own, **files})
    trees = "device_trees: bcm2711-rpi-4-b.dtb\n"
    (folder / "build.yaml").write_text(f"kernel: Image\nmodules: small.ko.xz\n{trees}{text}")
    return load_build(str(folder))


@pytest.mark.parametrize(
    ("text", "files", "found"),
    [
        ("", {}, SAME),
        ("", {"small.ko.xz": variant("padding")}, SAME),
        ("", {"small.ko.xz": variant("instructions")}, CodeDifference(changed=("gem_rx [small]",))),
        ("", {"small.ko.xz": variant("constant")}, CodeDifference(parts=("table [small]",))),
        ("", {"bcm2711-rpi-4-b.dtb": made.device_tree() + b"\1"}, ("device_tree bcm2711-rpi-4-b.dtb",)),
        ("", {"Image": dated_image("@1")}, SAME),
        ("", {"Image": dated_image("@0", build_id=bytes(20))}, SAME),
        ("", {"Image": dated_image("@0")[:-1] + b"\1"}, ("kernel",)),
        ("sysctls: {net.ipv4.tcp_sack: 0}\n", {}, ("setting sysctls",)),
        ("cmdline: [one=1]\n", {"small.ko.xz": variant("instructions")}, ("setting cmdline",)),
    ],
)
def test_what_is_no_code_differs_too(
    tmp_path: Path, text: str, files: dict[str, bytes], found: CodeDifference | tuple[str, ...]
) -> None:
    expected = CodeDifference(parts=found) if isinstance(found, tuple) else found
    assert compare_builds(build(tmp_path / "a", {}), build(tmp_path / "b", files, text)) == expected


def test_a_module_that_only_one_build_has_is_named(tmp_path: Path) -> None:
    one = build(tmp_path / "a", {})
    build(tmp_path / "b", {"other.ko": made.module("other")})
    (tmp_path / "b" / "build.yaml").write_text(
        "kernel: Image\nmodules: [small.ko.xz, other.ko]\ndevice_trees: bcm2711-rpi-4-b.dtb\n"
    )
    other = load_build(str(tmp_path / "b"))
    assert compare_builds(one, other) == CodeDifference(parts=("module other",))


def test_a_module_that_cannot_be_compared_counts_as_other_code(tmp_path: Path) -> None:
    def damaged(text: str) -> bytes:
        """Return a module whose last section has an impossible alignment."""
        data = made.module("small", srcversion=text)
        return data[:-16] + b"\3" + data[-15:]

    one, other = (build(tmp_path / text, {"small.ko.xz": damaged(text)}) for text in "ab")
    (found,) = compare_builds(one, other).parts
    assert found.startswith("unknown: small: ")
