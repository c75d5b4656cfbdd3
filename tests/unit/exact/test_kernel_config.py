"""A kernel that lacks what exact boards need is refused before any boot, if its configuration is known."""

import gzip
import lzma
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import CapabilityError
from pytest_pinet.exact.kernel_config import NEEDED, kernel_config, require_config
from pytest_pinet.model.build import Build
from tests.support.build_files import RELEASE, image, module, package, tree, write

COMPLETE = "# Linux/arm64 6.12\n" + "".join(f"{name}=y\n" for name in NEEDED)
LACKING = COMPLETE.replace("CONFIG_NET_NS=y", "# CONFIG_NET_NS is not set")
MESSAGE = r"^exact boards cannot boot build .*: its kernel was built without network namespaces \(CONFIG_NET_NS\); set "


def of_package(folder: Path, config: str) -> Build:
    files = {f"boot/vmlinuz-{RELEASE}": image(), f"boot/config-{RELEASE}": config.encode(), **tree()}
    (folder / "linux-image.deb").write_bytes(package(files))
    return load_build(str(folder / "linux-image.deb"))


def of_tree(folder: Path, config: str) -> Build:
    write(folder / "linux", {".config": config.encode(), "arch/arm64/boot/Image": image()})
    return load_build(str(folder / "linux/arch/arm64/boot/Image"))


def of_folder(folder: Path, config: str) -> Build:
    return load_build(str(write(folder / "out", {"Image": image(), f"config-{RELEASE}": config.encode()})))


def of_module(folder: Path, config: str) -> Build:
    """Return an artefact with a defconfig of Raspberry Pi: the configuration is in a module (CONFIG_IKCONFIG=m)."""
    configs = module("configs") + b"IKCFG_ST" + gzip.compress(config.encode()) + b"IKCFG_ED"
    files = {f"lib/modules/{RELEASE}/kernel/kernel/configs.ko.xz": lzma.compress(configs)}
    return load_build(str(write(folder / "artefact", {"boot/kernel8.img": image(), **tree(), **files})))


@pytest.fixture(params=[of_package, of_tree, of_folder, of_module])
def build(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found: Build = request.param(tmp_path, LACKING)
    return found


def test_a_kernel_without_network_namespaces_is_refused(build: Build) -> None:
    with pytest.raises(CapabilityError, match=MESSAGE):
        require_config(build, image())


def test_the_image_itself_can_have_the_configuration(tmp_path: Path) -> None:
    build = of_folder(tmp_path, LACKING)
    inside = image() + b"IKCFG_ST" + gzip.compress(COMPLETE.encode()) + b"IKCFG_ED"
    assert kernel_config(build, inside) == dict.fromkeys(NEEDED, "y")
    require_config(build, inside)
    # The same words by chance.
    with pytest.raises(CapabilityError, match=MESSAGE):
        require_config(build, image() + b"IKCFG_ST" + b"\x1f\x8bIKCFG_ED")


def test_a_kernel_whose_configuration_is_nowhere_is_booted(tmp_path: Path) -> None:
    build = load_build(str(write(tmp_path, {"Image": image()})))
    assert kernel_config(build, image()) == {}
    require_config(build, image())
