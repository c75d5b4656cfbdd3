"""Trees of modules: the part that a board needs, files that change during a run, and the firmware for an initramfs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.builds.contents import archive, early_firmware
from pytest_pinet.builds.listing import list_folder
from pytest_pinet.builds.load import load_build
from pytest_pinet.builds.tree import BuildSnapshot, built_in_modules, of_tree, read_tree, required_modules
from pytest_pinet.errors import ChangedBuildError, Where
from pytest_pinet.model.build import Build, BuildFileRole, ModuleId
from tests.support import build_files as made


@pytest.mark.parametrize("base", ["lib/modules", "usr/lib/modules", "modules", "."])
def test_a_tree_is_found_in_every_usual_folder(tmp_path: Path, base: str) -> None:
    root = tmp_path / "root"
    made.write(root, {f"{base}/{made.RELEASE}/kernel/fs/ext4.ko": made.module("ext4")})
    where = Where("here")
    assert list_folder(root, where).trees == [root / base / made.RELEASE]
    assert list_folder(root / base / made.RELEASE, where).trees == [root / base / made.RELEASE]
    (root / "other").mkdir()
    assert list_folder(root / "other", where).trees == []


def test_a_module_in_updates_replaces_the_one_in_kernel(tmp_path: Path) -> None:
    path = f"lib/modules/{made.RELEASE}"
    old, new = made.module("r8169", srcversion="OLD"), made.module("r8169", srcversion="NEW")
    made.write(tmp_path, {f"{path}/kernel/r8169.ko": old, f"{path}/updates/r8169.ko": new})
    modules, digest, size = read_tree(tmp_path / path)
    assert modules["r8169"].srcversion == "NEW"
    assert size == len(old) + len(new)
    assert read_tree(tmp_path / path) == (modules, digest, size)
    made.write(tmp_path, {f"{path}/modules.order": b"x"})
    assert read_tree(tmp_path / path)[1] != digest


def test_the_list_of_what_is_built_in_may_have_any_bytes(tmp_path: Path) -> None:
    made.write(tmp_path, {"modules.builtin": b"kernel/net/core/pktgen.ko\n\xff\xfe\n\nkernel/fs/nls/nls-cp437.ko.xz\n"})
    assert built_in_modules(tmp_path) >= {"pktgen", "nls_cp437"}
    assert built_in_modules(tmp_path / "missing") == set()


def module(name: str, path: str = "", depends: str = "", *aliases: str) -> ModuleId:
    path = f"kernel/{path or 'drivers/misc'}/{name}.ko"
    return ModuleId(name, path, made.VERMAGIC, "arm64", depends=tuple(depends.split()), aliases=aliases)


MODULES = {
    one.name: one
    for one in (
        module("e1000e", "drivers/net", "ptp", "pci:v00008086d000010D3sv*sd*bc*sc*i*"),
        module("igb", "drivers/net", "dca ptp", "pci:v00008086d00001521sv*sd*bc*sc*i*"),
        module("r8152", "drivers/net", "mii", "usb:v0BDAp815[36]d*dc*dsc*dp*ic*isc*ip*in*"),
        module("ptp", "drivers/ptp", "pps_core"),
        module("pps_core"),
        module("mii"),
        module("dca"),
        module("ext4", "fs", "jbd2"),
        module("jbd2", "fs"),
        module("tcp_bbr", "net/ipv4"),
        module("nouveau", "drivers/gpu"),
    )
}


def names(*loaded: str, modaliases: tuple[str, ...] = ()) -> list[str]:
    return sorted(found.name for found in required_modules(MODULES, loaded, modaliases))


def test_modules_for_devices_are_selected_with_their_dependencies() -> None:
    assert names() == ["tcp_bbr"]
    assert names(modaliases=("pci:v00008086d000010D3sv00008086sd00000000bc02sc00i00",)) == [
        "e1000e",
        "pps_core",
        "ptp",
        "tcp_bbr",
    ]
    assert names(modaliases=("usb:v0BDAp8153d3100dc00dsc00dp00icFFiscFFip00in00",)) == ["mii", "r8152", "tcp_bbr"]


def test_loaded_and_named_modules_are_selected() -> None:
    assert names("ext4", "no-such") == ["ext4", "jbd2", "tcp_bbr"]
    assert names("pps-core") == ["pps_core", "tcp_bbr"]


TREE = f"lib/modules/{made.RELEASE}"
MODULE = f"{TREE}/kernel/drivers/net/e1000e.ko"


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made.write(tmp_path / "new", {"Image": made.image(), **made.tree(made.RELEASE, e1000e=made.module("e1000e"))})
    return load_build(str(tmp_path / "new"))


def test_unchanged_files_are_read_again(build: Build, tmp_path: Path) -> None:
    assert BuildSnapshot.of(build.of(BuildFileRole.KERNEL)[0]).read() == made.image()
    files = of_tree(build.of(BuildFileRole.MODULES)[0])
    assert files["kernel/drivers/net/e1000e.ko"].read() == (tmp_path / "new" / MODULE).read_bytes()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda path: path.write_bytes(b"other"), "changed during this run, so the results would be of two"),
        (lambda path: path.unlink(), r"cannot be read any more \(No such file or directory\)"),
    ],
)
def test_a_changed_file_is_an_error(build: Build, change: Callable[[Path], object], sentence: str) -> None:
    (kernel,) = build.of(BuildFileRole.KERNEL)
    change(Path(kernel.path))
    with pytest.raises(ChangedBuildError, match=f"^{kernel.path} {sentence}"):
        BuildSnapshot.of(kernel).read()


@pytest.mark.parametrize(
    "change", [lambda path: path.write_bytes(b"other"), lambda path: path.unlink(), lambda path: path.rename("x.ko")]
)
def test_a_changed_tree_is_an_error(
    build: Build, tmp_path: Path, change: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    change(tmp_path / "new" / MODULE)
    with pytest.raises(ChangedBuildError, match=f"{TREE} changed during this run"):
        of_tree(build.of(BuildFileRole.MODULES)[0])


FILES = {"var/lib/x/firmware/rtl_nic/a.fw": b"firmware", "var/lib/x/firmware/b.bin": b"12345"}


def unpack(data: bytes) -> dict[str, bytes]:
    """Return the files of an archive in the format newc (early-userspace/buffer-format.rst of the kernel)."""
    found: dict[str, bytes] = {}
    at = 0
    while True:
        fields = [int(data[at + 6 + 8 * number : at + 14 + 8 * number], 16) for number in range(13)]
        assert data[at : at + 6] == b"070701"
        name = data[at + 110 : at + 110 + fields[11] - 1].decode()
        at += 110 + fields[11]
        at += -at % 4
        if name == "TRAILER!!!":
            return found
        if fields[1] & 0o170000 == 0o100000:
            found[name] = data[at : at + fields[6]]
        else:
            assert fields[1] == 0o040755
        at += fields[6] + -fields[6] % 4


def test_the_archive_has_the_files_and_their_folders() -> None:
    data = archive(FILES)
    assert unpack(data) == FILES
    assert len(data) % 512 == 0
    assert data.index(b"var/lib/x/firmware\0") < data.index(b"rtl_nic/a.fw")


@pytest.mark.skipif(shutil.which("cpio") is None, reason="cpio is not installed")
def test_cpio_unpacks_the_archive(tmp_path: Path) -> None:
    subprocess.run(["cpio", "-id", "--quiet"], input=archive(FILES), cwd=tmp_path, check=True)
    assert {name: (tmp_path / name).read_bytes() for name in FILES} == FILES


def build_with_firmware(folder: Path, module: bytes, built_in: bytes = b"") -> Build:
    made.write(folder, {"Image": made.image(), **made.tree(r8169=module)})
    made.write(folder, {f"lib/modules/{made.RELEASE}/modules.builtin.modinfo": built_in})
    names = ("rtl_nic/rtl8125b-2.fw", "rtl_nic/rtl8168g-3.fw.xz", "brcm/brcmfmac-x.bin", "amdgpu/big.bin")
    made.write(folder, {f"firmware/{name}": name.encode() for name in names})
    return load_build(str(folder))


def test_only_files_that_drivers_of_the_build_may_load_are_needed_early(tmp_path: Path) -> None:
    module = made.module("r8169", firmware=("rtl_nic/rtl8125b-2.fw", "rtl_nic/rtl8168g-3.fw"))
    found = build_with_firmware(tmp_path, module, b"brcmfmac.license=x\0brcmfmac.firmware=brcm/brcmfmac*.bin\0")
    assert [file.name for file in early_firmware(found)] == [
        "brcm/brcmfmac-x.bin", "rtl_nic/rtl8125b-2.fw", "rtl_nic/rtl8168g-3.fw.xz",
    ]  # fmt: skip
    without = build_with_firmware(tmp_path, made.module("r8169"))
    assert early_firmware(without) == ()


def test_with_the_drivers_of_the_board_all_files_may_be_needed_early(tmp_path: Path) -> None:
    found = build_with_firmware(tmp_path, made.module("r8169"))
    only = replace(found, files=tuple(file for file in found.files if file.role == "firmware"), kernel=None, modules={})
    assert len(early_firmware(only)) == 4
