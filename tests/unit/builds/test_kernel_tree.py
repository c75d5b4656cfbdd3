"""A source tree of the kernel: where functions are defined, and who maintains code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_pinet.builds.kernel_tree import KernelTree, find_functions, owner_of, sources_of, sources_of_module
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.build import Build, BuildFile, BuildFileRole, ModuleId
from tests.support.maintainer_tree import commit_usb, maintainer_tree

MAIN = """\
static int gem_rx(struct macb_queue *queue, struct napi_struct *napi,
\t\t  int budget);
static void macb_tx_unmap(struct macb *bp);

static int gem_rx(struct macb_queue *queue, struct napi_struct *napi,
\t\t  int budget)
{
\tmacb_tx_unmap(bp);
}

static netdev_tx_t
macb_start_xmit(struct sk_buff *skb, struct net_device *dev)
{
}
/* gem_rx_refill(queue) is elsewhere */
"""


def a_file(role: BuildFileRole, path: Path) -> BuildFile:
    return BuildFile(role, path.name, str(path), "0", 1)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for folder in ("net/core", "drivers/net/ethernet/cadence", "arch/arm64/boot"):
        (tmp_path / "linux" / folder).mkdir(parents=True)
    for name in ("MAINTAINERS", "Kbuild"):
        (tmp_path / "linux" / name).touch()
    (tmp_path / "linux/drivers/net/ethernet/cadence/macb_main.c").write_text(MAIN)
    (tmp_path / "linux/net/core/dev.c").write_text("static __latent_entropy void net_rx_action(struct a *h)\n{\n}\n")
    return tmp_path / "linux"


def test_functions_of_a_kernel_tree_have_its_paths(tree: Path) -> None:
    build = Build("tree", (a_file(BuildFileRole.KERNEL, tree / "arch/arm64/boot/Image"),))
    found = find_functions(sources_of(build), ["gem_rx", "macb_start_xmit", "net_rx_action", "gem_rx_refill"])
    assert found == {
        "gem_rx": "drivers/net/ethernet/cadence/macb_main.c:5",
        "macb_start_xmit": "drivers/net/ethernet/cadence/macb_main.c:12",
        "net_rx_action": "net/core/dev.c:1",
    }


def test_a_space_may_stand_before_the_parameters(tmp_path: Path) -> None:
    """As in drivers/net/usb/usbnet.c."""
    (tmp_path / "usbnet.c").write_text("void rx_submit (struct urb *urb);\nvoid rx_submit (struct urb *urb)\n{\n}\n")
    assert find_functions([tmp_path], ["rx_submit"]) == {"rx_submit": "usbnet.c:2"}


def test_a_module_has_the_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(MAIN)
    build = Build("module", (a_file(BuildFileRole.MODULE, tmp_path / "macb.ko"),))
    assert find_functions(sources_of(build), ["gem_rx", "net_rx_action"]) == {"gem_rx": "main.c:5"}


def test_installed_modules_lead_to_their_tree(tree: Path, tmp_path: Path) -> None:
    modules = tmp_path / "lib/modules/6.1.0"
    modules.mkdir(parents=True)
    (modules / "build").symlink_to(tree)
    build = Build("modules", (a_file(BuildFileRole.MODULES, modules),))
    assert "gem_rx" in find_functions(sources_of(build), ["gem_rx"])


def test_a_function_is_that_of_its_own_driver(tree: Path, tmp_path: Path) -> None:
    other = tree / "drivers/net/ethernet/broadcom"
    other.mkdir()
    (other / "bcmgenet.c").write_text(MAIN)
    modules = tmp_path / "lib/modules/6.1.0"
    modules.mkdir(parents=True)
    (modules / "build").symlink_to(tree)
    macb = ModuleId("macb", "kernel/drivers/net/ethernet/cadence/macb.ko", "", "arm64")
    build = Build("modules", (a_file(BuildFileRole.MODULES, modules),), modules={"macb": macb})
    folders = [*sources_of_module(build, "macb"), *sources_of(build)]
    found = find_functions(folders, ["gem_rx", "net_rx_action"])
    assert found == {"gem_rx": "drivers/net/ethernet/cadence/macb_main.c:5", "net_rx_action": "net/core/dev.c:1"}


@pytest.mark.parametrize("role", [BuildFileRole.KERNEL, BuildFileRole.MODULES])
def test_a_build_in_a_folder_of_its_own_leads_to_the_tree(tree: Path, tmp_path: Path, role: BuildFileRole) -> None:
    """``make O=out`` leaves the link out/source; the modules have build, which leads to out."""
    out, modules = tmp_path / "out", tmp_path / "lib/modules/6.1.0"
    for folder in (out / "arch/arm64/boot", modules):
        folder.mkdir(parents=True)
    (out / "source").symlink_to(tree)
    (modules / "build").symlink_to(out)
    path = modules if role is BuildFileRole.MODULES else out / "arch/arm64/boot/Image"
    assert "gem_rx" in find_functions(sources_of(Build("out", (a_file(role, path),))), ["gem_rx"])


def test_a_build_without_sources_has_no_places(tmp_path: Path) -> None:
    build = Build("package", (a_file(BuildFileRole.MODULE, tmp_path / "macb.ko"),))
    assert sources_of(build) == []
    assert find_functions([], ["gem_rx"]) == {}


@pytest.fixture
def kernel_tree(tmp_path: Path) -> Path:
    if shutil.which("perl") is None:
        pytest.skip("perl is not installed")
    return maintainer_tree(tmp_path)


@pytest.mark.parametrize(
    ("driver", "file"),
    [
        ("r8152", "drivers/net/usb/r8152.c"),
        ("x_y", "drivers/net/usb/x-y.c"),
        ("r8169", "drivers/net/ethernet/realtek/r8169_main.c"),
        # The driver of genet.ko calls itself bcmgenet.
        ("bcmgenet", "drivers/net/ethernet/broadcom/genet/bcmgenet.c"),
        ("genet", "drivers/net/ethernet/broadcom/genet/bcmgenet.c"),
    ],
)
def test_the_file_of_a_driver(kernel_tree: Path, driver: str, file: str) -> None:
    owner = owner_of(driver, KernelTree(kernel_tree))
    assert (owner.what, owner.file, owner.source) == (driver, file, "MAINTAINERS of Linux 6.12.117-rc1")
    assert owner.to == ["Doug Berger <opendmb@gmail.com>"]
    assert owner.lists == ["netdev@vger.kernel.org"]
    assert owner.entries == [f"ENTRY OF {file}"]


def test_the_files_of_a_commit(kernel_tree: Path) -> None:
    kernel = KernelTree(kernel_tree)
    commit = commit_usb(kernel_tree)
    owner = kernel.owner_of_commit(commit)
    assert owner.what == f"commit {commit[:12]}"
    assert owner.file == "drivers/net/usb/Makefile and 2 more files"
    assert owner.entries == ["ENTRY OF patch"]
    with pytest.raises(ConfigError, match=r"git format-patch in .* failed: fatal"):
        kernel.owner_of_commit("0" * 40)
    with pytest.raises(ConfigError, match=r"expected the hash of a commit, got '--output=x'"):
        kernel.owner_of_commit("--output=x")


def test_mistakes(kernel_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(ConfigError, match=r"is no source tree of the kernel; expected a folder with MAINTAINERS and"):
        KernelTree(tmp_path_factory.mktemp("empty"))
    with pytest.raises(ConfigError, match=r"no Makefile below .*drivers/net builds the driver 'nonesuch'"):
        owner_of("nonesuch", KernelTree(kernel_tree))
    with pytest.raises(ConfigError, match=r"shipped table does not have the driver 'nonesuch'; give the source of the"):
        owner_of("nonesuch", None)
    with pytest.raises(ConfigError, match=r"expected the name of a driver such as 'bcmgenet', got 'a b'"):
        owner_of("a b", None)
