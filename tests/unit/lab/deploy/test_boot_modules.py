"""Which modules of a build a board needs to boot, also where its known-good kernel has them built in."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.builds.tree import required_modules
from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.shell import Completed
from pytest_pinet.lab.deploy.kernel_and_tree import check_built_in_options, read_kernel
from pytest_pinet.lab.deploy.root_files import BootNeeds, parse_boot_needs, read_boot_needs
from pytest_pinet.lab.deploy.trial import LOGIN_S, SILENCE_S, read_guard
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.build import Build, ModuleId
from tests.support import build_files as made
from tests.support.board_tree import BoardTree
from tests.support.local_shell import LocalShell

# A Pi 4 with Raspberry Pi OS: file systems and SD card are built in, the PHY of the onboard NIC is a BCM54213PE.
PI_4 = """\
=====8<=====loaded
lan78xx
ipv6
=====8<=====built_in
kernel/fs/ext4/ext4.ko
kernel/fs/fat/vfat.ko
kernel/drivers/mmc/core/mmc_block.ko
kernel/drivers/mmc/host/sdhci-iproc.ko
kernel/drivers/net/phy/broadcom.ko
=====8<=====modaliases
of:NethernetT(null)Cbrcm,bcm2711-genet-v5
of:Nemmc2T(null)Cbrcm,bcm2711-emmc2
mmc:block
=====8<=====phys
0x600d84a2
0x00000000
=====8<=====mounts
sysfs /sys sysfs rw 0 0
/dev/mmcblk0p2 / ext4 rw,noatime 0 0
/dev/mmcblk0p1 /boot/firmware vfat rw 0 0
server:/home /home nfs4 rw 0 0
=====8<=====root
mmc:block
of:Nemmc2T(null)Cbrcm,bcm2711-emmc2
"""


def module(name: str, *aliases: str, depends: str = "", softdeps: str = "") -> ModuleId:
    path = f"kernel/drivers/{name}.ko"
    return ModuleId(
        name,
        path,
        "6.12 SMP",
        "arm64",
        depends=tuple(depends.split()),
        aliases=aliases,
        softdeps=tuple(softdeps.split()),
    )


MODULES = {
    one.name: one
    for one in (
        module("ext4", "fs-ext3", "fs-ext4", depends="jbd2", softdeps="crc32c"),
        module("jbd2"),
        module("crc32c"),
        module("crc32c_arm64", "crypto-crc32c"),
        module("vfat", "fs-vfat", depends="fat"),
        module("fat"),
        module("nfsv4", "fs-nfs4"),
        module("btrfs", "fs-btrfs"),
        module("mmc_block", "mmc:block"),
        module("sdhci_iproc", "of:N*T*Cbrcm,bcm2711-emmc2", "of:N*T*Cbrcm,bcm2711-emmc2C*"),
        module("sdhci_other", "of:N*T*Cbrcm,bcm2711-emmc2"),
        module("genet", "of:N*T*Cbrcm,bcm2711-genet-v5", softdeps="mdio_bcm_unimac"),
        module("mdio_bcm_unimac"),
        module("broadcom", "mdio:0110000000001101100001001010????", depends="bcm_phy_lib"),
        module("bcm_phy_lib"),
        module("realtek", "mdio:0000000000011100110010010001????"),
    )
}
NEEDS = parse_boot_needs(PI_4)


def test_what_the_board_uses_is_read() -> None:
    assert NEEDS.loaded == {"lan78xx", "ipv6"}
    assert NEEDS.built_in == {"ext4", "vfat", "mmc_block", "sdhci_iproc", "broadcom"}
    assert NEEDS.phys == {"mdio:01100000000011011000010010100010"}
    assert NEEDS.root == {"mmc:block", "of:Nemmc2T(null)Cbrcm,bcm2711-emmc2", "fs-ext4"}
    assert {"fs-vfat", "fs-nfs4", "mmc:block"} <= NEEDS.aliases


def test_of_a_large_tree_a_board_gets_file_systems_root_device_phy_and_soft_dependencies() -> None:
    chosen = required_modules(MODULES, [*NEEDS.loaded, *NEEDS.built_in], NEEDS.aliases | NEEDS.phys | NEEDS.root)
    assert {one.name for one in chosen} == {
        "ext4", "jbd2", "crc32c", "vfat", "fat", "nfsv4", "mmc_block", "sdhci_iproc", "sdhci_other", "genet",
        "mdio_bcm_unimac", "broadcom", "bcm_phy_lib",
    }  # fmt: skip


def test_an_initramfs_gets_the_root_and_the_phys() -> None:
    assert NEEDS.early(MODULES) == [
        "bcm_phy_lib", "broadcom", "crc32c", "ext4", "jbd2", "mmc_block", "sdhci_iproc", "sdhci_other",
    ]  # fmt: skip


def test_without_an_initramfs_these_must_be_built_in_as_in_the_known_good_kernel() -> None:
    # Not sdhci_other: the known-good kernel does without it, although its alias fits.
    assert NEEDS.before_root(MODULES) == ["ext4", "mmc_block", "sdhci_iproc"]
    built_in = {name: one for name, one in MODULES.items() if name not in ("ext4", "mmc_block", "sdhci_iproc")}
    assert NEEDS.before_root(built_in) == []


@pytest.mark.parametrize("output", ["", "=====8<=====loaded\n=====8<=====mounts\nx\n"])
def test_a_board_that_reports_nothing_needs_nothing(output: str) -> None:
    assert parse_boot_needs(output) == BootNeeds()


def test_this_machine_reports_its_root() -> None:
    assert any(alias.startswith("fs-") for alias in read_boot_needs(LocalShell("runner")).root)


@pytest.fixture
def nfs_board(tmp_path: Path) -> BoardTree:
    """A board with an onboard NIC and a USB NIC; the server is reached through a VLAN of the onboard NIC."""
    tree = BoardTree(tmp_path / "board")
    genet = tree.nic("eth0", "platform/scb/fd580000.ethernet", "b8:27:eb:00:00:01", "bcmgenet", "platform")
    (genet / "modalias").write_text("of:NethernetT(null)Cbrcm,bcm2711-genet-v5\n")
    usb = tree.nic("eth1", "platform/xhci/usb2/2-1/2-1:1.0", "00:e0:4c:00:00:03", "r8152", "usb")
    (usb / "modalias").write_text("usb:v0BDAp8153d3000dc00dsc00dp00icFFiscFFip00in00\n")
    (tree.root / "sys/devices/platform/xhci/modalias").write_text("of:NusbCgeneric-xhci\n")
    (tree.plain("eth0.7", "b8:27:eb:00:00:01") / "lower_eth0").symlink_to("../eth0")
    (tree.root / "proc/self").mkdir()
    (tree.root / "proc/cmdline").write_text("console=tty1 rootwait\n")
    return tree


def routed(tree: BoardTree, device: str) -> None:
    ip = tree.root / "bin/ip"
    ip.write_text(
        f'#!/bin/sh\n[ "$*" != "-o route get 10.0.0.1" ] || echo "10.0.0.1 dev {device} src 10.0.0.2 uid 0"\n'
    )
    ip.chmod(0o755)


@pytest.mark.parametrize(
    ("mount", "cmdline", "version"),
    [
        ("10.0.0.1:/srv / nfs rw,vers=3,mountaddr=10.9.9.9,nolock,local_lock=all,addr=10.0.0.1 0 0", "", {"nfsv3"}),
        ("10.0.0.1:/srv / nfs4 rw,relatime,vers=4.2,clientaddr=10.0.0.2,addr=10.0.0.1 0 0", "", {"nfsv4"}),
        ("overlay / overlay rw,lowerdir=/nfs 0 0", "root=/dev/nfs nfsroot=10.0.0.1:/srv/pi,vers=3 rw ip=dhcp", set()),
    ],
)
def test_the_nic_of_an_nfs_root_is_needed_to_mount_it(
    nfs_board: BoardTree, mount: str, cmdline: str, version: set[str]
) -> None:
    (nfs_board.root / "proc/self/mounts").write_text(f"{mount}\n")
    (nfs_board.root / "proc/cmdline").write_text(f"console=tty1 {cmdline} rootwait\n")
    routed(nfs_board, "eth0.7")
    needs = read_boot_needs(nfs_board.shell(), str(nfs_board.root))
    own = {alias for alias in needs.root if alias.startswith(("of:NethernetT", "of:Nusb", "usb:", "nfsv"))}
    assert own == {"of:NethernetT(null)Cbrcm,bcm2711-genet-v5", *version}
    routed(nfs_board, "eth1")
    needs = read_boot_needs(nfs_board.shell(), str(nfs_board.root))
    assert {alias[:8] for alias in needs.root if alias.startswith(("usb:", "of:N"))} == {"usb:v0BD", "of:NusbC"}


def test_without_the_address_of_the_server_all_nics_are_needed(nfs_board: BoardTree) -> None:
    (nfs_board.root / "proc/self/mounts").write_text("overlay / overlay rw,lowerdir=/nfs 0 0\n")
    for words, nics in (("root=/dev/nfs", 2), ("root=/dev/nfs nfsroot=/srv/pi", 2), ("root=/dev/mmcblk0p2", 0)):
        (nfs_board.root / "proc/cmdline").write_text(f"console=tty1 {words} rootwait\n")
        root = read_boot_needs(nfs_board.shell(), str(nfs_board.root)).root
        assert len([alias for alias in root if alias.startswith(("usb:v0BDA", "of:Nethernet"))]) == nics


def test_an_nfs_root_needs_driver_and_version_in_the_initramfs_or_in_the_kernel() -> None:
    output = PI_4.replace("/dev/mmcblk0p2 / ext4 rw,noatime 0 0", "10.0.0.1:/srv / nfs rw,vers=3,addr=10.0.0.1 0 0")
    output = output[: output.index("mmc:block\nof:Nemmc2T(null)Cbrcm,bcm2711-emmc2\n", output.index("<=====root"))]
    output = output.replace("kernel/fs/fat/vfat.ko", "kernel/drivers/net/genet.ko\nkernel/fs/nfs/nfsv3.ko")
    needs = parse_boot_needs(f"{output}of:NethernetT(null)Cbrcm,bcm2711-genet-v5\n")
    modules = {**MODULES, "nfsv3": module("nfsv3", depends="nfs"), "nfs": module("nfs", "fs-nfs", "fs-nfs4")}
    assert {"genet", "mdio_bcm_unimac", "nfs", "nfsv3"} <= set(needs.early(modules))
    assert needs.before_root(modules) == ["genet", "nfsv3"]


IMAGE = made.image() + b"\0e1000e.debug\0e1000e.WakeOnLan\0"
WRONG = Build("wrong", options=(("e1000e", "NoSuchParameter", "1"),))


class Board(SshShell):
    """A board with its modules below ``root``. By its console, it gives no file. ``fetched`` counts its files."""

    def __init__(self, root: Path) -> None:
        super().__init__("pi", ["/bin/sh", "-c"])
        self.root = root
        self.fetched = 0

    def run(self, command: str, timeout_s: float = 10.0) -> Completed:
        return super().run(command.replace("/lib/modules/", f"{self.root}/modules/"), timeout_s)

    def fetch(self, command: str, timeout_s: float) -> bytes:
        self.fetched += 1
        return super().fetch(command, timeout_s)

    def check(self, build: Build = WRONG) -> None:
        check_built_in_options(build, self, self, f"{self.root}/kernel8.img", made.RELEASE)


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "kernel8.img").write_bytes(IMAGE)
    return Board(tmp_path)


def modules(board: Board, release: str, text: str) -> None:
    made.write(board.root / "modules" / release, {"modules.dep": text.encode()})


def test_the_options_are_checked_without_a_second_transfer(board: Board) -> None:
    read_kernel(board, str(board.root), "kernel8.img")
    with pytest.raises(ConfigError, match=r"e1000e has no parameter 'NoSuchParameter'; accepted: WakeOnLan, debug$"):
        board.check()
    assert board.fetched == 1


@pytest.mark.parametrize("line", ["kernel/drivers/net/e1000e.ko.xz:", "e1000e.ko:", "updates/e1000e.ko: mii.ko"])
def test_a_module_that_the_known_good_kernel_can_load_is_not_judged_by_its_image(board: Board, line: str) -> None:
    modules(board, made.RELEASE, f"kernel/lib/other.ko:\n{line}\n")
    board.check()


@pytest.mark.parametrize(
    ("release", "line"), [("6.12.25-another", "kernel/e1000e.ko:"), (made.RELEASE, "kernel/not-e1000e.ko: e1000e.ko")]
)
def test_a_module_of_another_kernel_or_name_does_not_count(board: Board, release: str, line: str) -> None:
    modules(board, release, f"{line}\n")
    with pytest.raises(ConfigError):
        board.check()


@pytest.mark.parametrize(
    ("boot_timeout_s", "silence_s"), [(30.0, SILENCE_S), (180.0, 180 + LOGIN_S), (300.0, 300 + LOGIN_S)]
)
def test_a_board_that_may_boot_slowly_is_not_rebooted_before_it_answers(boot_timeout_s: float, silence_s: int) -> None:
    guard = read_guard(LocalShell("pi1"), boot_timeout_s)
    assert f"[ $still -ge {silence_s} ]" in guard.installed()
    assert f"no heartbeat for {silence_s} s" in guard.installed()
