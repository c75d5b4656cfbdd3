"""Which exact boards execute a file of a kernel tree."""

from __future__ import annotations

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.exact.board import NICS
from pytest_pinet.exact.changed_files import _MODULES, SHARED, boards_for
from pytest_pinet.exact.measure import exact_boards

BOARDS = exact_boards()
USB = ["r8152", "r8156", "ax88179", "ax88772", "lan78xx", "smsc95xx", "cdc"]
QEMU_BRIDGE = ["e1000e", "igb", "virtio-net", "e1000e-slot", "virtio-net-slot"]
RPI_BRIDGE = ["r8169", "igc", "aqc"]


@pytest.mark.parametrize(
    ("file", "boards"),
    [
        ("drivers/net/usb/r8152.c", ["r8152", "r8156"]),
        ("./drivers/net/usb/r8152.c", ["r8152", "r8156"]),
        ("drivers/net/usb/usbnet.c", ["ax88179", "ax88772", "smsc95xx", "cdc"]),
        ("drivers/net/usb/asix_common.c", ["ax88772"]),
        ("drivers/net/usb/asix.h", ["ax88772"]),
        ("drivers/net/usb/ax88172a.c", ["ax88772"]),
        ("drivers/net/phy/ax88796b.c", ["ax88772"]),
        ("drivers/net/mii.c", [name for name in USB if name != "lan78xx"]),
        ("drivers/usb/host/xhci-ring.c", USB),
        ("drivers/usb/core/urb.c", USB),
        ("drivers/net/phy/broadcom.c", ["macb", "genet"]),
        ("drivers/net/mdio/mdio-bcm-unimac.c", ["genet"]),
        ("drivers/net/ethernet/broadcom/genet/bcmgenet.c", ["genet"]),
        ("drivers/net/ethernet/cadence/macb_main.c", ["macb"]),
        ("drivers/net/ethernet/intel/e1000e/netdev.c", ["e1000e", "e1000e-slot"]),
        ("drivers/net/virtio_net.c", ["virtio-net", "virtio-net-slot"]),
        ("drivers/net/phy/realtek/realtek_main.c", ["r8169"]),
        ("drivers/pci/controller/pcie-brcmstb.c", RPI_BRIDGE),
        ("drivers/pci/msi/msi.c", [*QEMU_BRIDGE, *RPI_BRIDGE]),
    ],
)
def test_a_file_of_a_driver_its_phy_or_its_bus_has_the_boards_that_load_it(file: str, boards: list[str]) -> None:
    assert boards_for([file], BOARDS) == boards


@pytest.mark.parametrize(
    "file",
    ["net/core/dev.c", "include/linux/netdevice.h", "net/ipv4/tcp_input.c", "mm/slub.c", "kernel/softirq.c", "Makefile",
     "arch/arm64/lib/memcpy.S",
     "drivers/net/phy/phylink.c", "drivers/net/ethernet/Kconfig", "drivers/net/usb/Makefile",
     "drivers/irqchip/irq-gic.c", "lib/iov_iter.c", "newfolder/new.c"],
)  # fmt: skip
def test_code_that_drivers_share_and_an_unknown_file_have_three_boards(file: str) -> None:
    assert sorted(boards_for([file], BOARDS)) == sorted(SHARED)


@pytest.mark.parametrize(
    "file",
    ["Documentation/networking/tcp.rst", "MAINTAINERS", ".mailmap", "net/core/a.rst", "arch/x86/net/bpf.c",
     "arch/arm64/boot/dts/broadcom/bcm2711-rpi-4-b.dts", "drivers/net/ethernet/mellanox/mlx5/core/en_rx.c",
     "drivers/net/ethernet/intel/ice/Makefile", "drivers/net/usb/sr9700.c", "drivers/net/phy/marvell.c",
     "drivers/net/wireless/ath/ath10k/core.c", "drivers/gpu/drm/drm_drv.c", "drivers/usb/gadget/function/f_ncm.c",
     "drivers/usb/host/xhci-tegra.c", "fs/ext4/super.c", "net/bluetooth/hci_core.c", "tools/a.c", "sound/core/pcm.c"],
)  # fmt: skip
def test_a_file_that_no_board_executes_has_none(file: str) -> None:
    assert boards_for([file], BOARDS) == []


def test_several_files_have_all_their_boards_once_in_the_order_of_the_lab() -> None:
    files = [
        "drivers/net/usb/r8152.c",
        "net/core/dev.c",
        "sound/core/pcm.c",
        "drivers/net/ethernet/intel/igc/igc_main.c",
    ]
    assert boards_for(files, BOARDS) == ["macb", "genet", "igc", "r8152", "r8156"]


def test_each_module_of_a_board_has_files() -> None:
    assert set(_MODULES) == {module for nic in NICS.values() for module in (*nic.path, *nic.modules)}


@pytest.mark.parametrize("file", ["/etc/passwd", "../linux/net/core/dev.c"])
def test_a_path_outside_of_the_tree_is_refused(file: str) -> None:
    with pytest.raises(ConfigError, match="is no path in a kernel tree; expected one from its top"):
        boards_for([file], BOARDS)
