"""Trees of modules are found, read once, and reduced to the modules that a board needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.builds.listing import list_folder
from pytest_pinet.builds.tree import built_in_modules, read_tree, required_modules
from pytest_pinet.errors import Where
from pytest_pinet.model.build import ModuleId
from tests.support import build_files as made


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


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
