"""Which exact boards execute a file of a kernel tree: the boards of its driver, a few for shared code, or none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pytest_pinet.errors import ConfigError
from pytest_pinet.exact.board import ExactBoard
from pytest_pinet.execution.names import quoted

# The boards for a change of code that all drivers share: both onboard NICs of a Raspberry Pi, and a USB adapter.
SHARED = ("genet", "macb", "r8152")
# The core of PCI works for both bridges.
_PCI = r"drivers/pci/(?!controller/|endpoint/|switch/)|include/linux/pci.*\.h"
# The files of each module that an exact board loads, as patterns of Linux 6.1 to 6.18.
_MODULES: Mapping[str, str] = {
    "asix": r"drivers/net/usb/(asix[._]|ax88172a\.)",
    "atlantic": r"drivers/net/ethernet/aquantia/",
    "ax88179_178a": r"drivers/net/usb/ax88179_178a\.",
    "ax88796b": r"drivers/net/phy/ax88796b[._]",
    "bcm_phy_lib": r"drivers/net/phy/bcm-phy-lib\.|include/linux/brcmphy\.h",
    "broadcom": r"drivers/net/phy/(broadcom|bcm-phy-ptp)\.",
    "cdc_ether": r"drivers/net/usb/cdc_ether\.|include/(uapi/)?linux/usb/(cdc|rndis_host)\.h",
    "e1000e": r"drivers/net/ethernet/intel/e1000e/",
    "genet": r"drivers/net/ethernet/broadcom/genet/|include/linux/platform_data/bcmgenet\.h",
    "igb": r"drivers/net/ethernet/intel/igb/",
    "igc": r"drivers/net/ethernet/intel/igc/",
    "lan78xx": r"drivers/net/usb/lan78xx\.",
    "macb": r"drivers/net/ethernet/cadence/",
    "mdio_bcm_unimac": r"drivers/net/mdio/mdio-bcm-unimac\.|include/linux/platform_data/mdio-bcm-unimac\.h",
    "microchip": r"drivers/net/phy/microchip\.|include/linux/microchipphy\.h",
    "mii": r"drivers/net/mii\.|include/linux/mii\.h",
    "of_mdio": r"drivers/net/mdio/of_mdio\.|include/linux/of_mdio\.h",
    "pci_host_generic": rf"drivers/pci/controller/pci-host-(common|generic)\.|{_PCI}",
    "pcie_brcmstb": rf"drivers/pci/controller/pcie-brcmstb\.|{_PCI}",
    "r8152": r"drivers/net/usb/r8152\.|include/linux/usb/r8152\.h",
    "r8169": r"drivers/net/ethernet/realtek/r8169",
    "realtek": r"drivers/net/phy/realtek[./]",
    "smsc": r"drivers/net/phy/smsc\.|include/linux/smscphy\.h",
    "smsc95xx": r"drivers/net/usb/smsc95xx\.",
    "usbnet": r"drivers/net/usb/usbnet\.|include/linux/usb/usbnet\.h",
    "virtio_net": r"drivers/net/virtio_net\.|include/(uapi/)?linux/virtio_net\.h",
    "virtio_pci": r"drivers/virtio/|include/(uapi/)?linux/virtio(_config|_pci\w*|_ring)?\.h",
    "xhci_plat_hcd": r"drivers/usb/host/xhci(-(caps|dbg|debugfs|ext-caps|hub|mem|plat|port|ring|trace))?\."
    r"|drivers/usb/core/|include/linux/usb(/hcd)?\.h",
}
_BUILD = r"Kconfig|Makefile|Kbuild"
# What no exact board executes: documents, other processors, other drivers, protocols and file systems that it lacks. A
# file that is not listed may matter, such as one of a new folder.
_OTHERS = rf"""
.*\.(rst|txt|md|yaml|dts[io]?) | (.*/)?\.[^/]* | (?!{_BUILD})[^/]+
| (Documentation|LICENSES|block|certs|crypto|io_uring|ipc|rust|samples|security|sound|tools|virt)/.*
| arch/(?!arm64/|Kconfig).* | arch/arm64/(boot/dts|configs|crypto|hyperv|kvm|xen)/.*
| include/(acpi|drm|dt-bindings|kunit|kvm|media|memory|misc|pcmcia|rdma|scsi|sound|target|ufs|video|xen)/.*
| include/linux/(iio|input|mfd|mlx4|mlx5|mmc|mtd|platform_data|qed|remoteproc|rpmsg|soc|soundwire|spi|ssb)/.*
| fs/(?!kernfs/|proc/|ramfs/|sysfs/)[^/]+/.*
| net/(6lowpan|9p|appletalk|atm|ax25|batman-adv|bluetooth|caif|can|ceph|dccp|dsa|ieee802154|iucv|kcm|key|l2tp|lapb|llc
    |mac80211|mac802154|mctp|mpls|mptcp|netrom|nfc|openvswitch|phonet|psample|qrtr|rds|rfkill|rose|rxrpc|sctp
    |smc|sunrpc|tipc|vmw_vsock|wireless|x25)/.*
| drivers/(?!amba/|base/|bus/|char/|clk/|clocksource/|dma/|firmware/|iommu/|irqchip/|net/|of/|pci/|perf/|phy/|ptp/
    |reset/|soc/|tty/|usb/|virtio/|{_BUILD}).*
| drivers/(bus|char|clk|dma|firmware|iommu|phy|reset|soc)/[^/]+/.*
| drivers/net/(?!ethernet/|mdio/|phy/|usb/|loopback\.|mdio\.|{_BUILD}).*
| drivers/net/ethernet/(?!((aquantia|broadcom|cadence|intel|realtek)/)?({_BUILD})).*
| drivers/net/(mdio|usb)/(?!{_BUILD}|fwnode_mdio).*
| drivers/net/phy/(?!phy|mdio|mii_|linkmode|fixed_phy|swphy|sfp|{_BUILD}).*
| drivers/usb/(?!common/|host/({_BUILD})|{_BUILD}).* | drivers/pci/(?!controller/({_BUILD})|{_BUILD}).*
"""
_DRIVERS = {module: re.compile(pattern) for module, pattern in _MODULES.items()}
_NOT_EXECUTED = re.compile(_OTHERS, re.VERBOSE)


def boards_for(files: Iterable[str], boards: Mapping[str, ExactBoard]) -> list[str]:
    """Return the names of the boards that execute one of these files of a kernel tree, in the order of ``boards``.

    A file of a module belongs to each board that loads this module: the driver of a NIC, its PHY, its bus. Any other
    file that may be executed belongs to the boards ``SHARED``. Raises ConfigError for a path that leaves the tree.
    """
    modules: set[str] = set()
    shared = False
    for file in files:
        path = file.removeprefix("./")
        if path.startswith("/") or ".." in path.split("/"):
            raise ConfigError(
                f"{quoted(file)} is no path in a kernel tree; expected one from its top, such as net/core/dev.c"
            )
        found = {module for module, pattern in _DRIVERS.items() if pattern.match(path)}
        modules |= found
        shared |= not found and not _NOT_EXECUTED.fullmatch(path)
    return [
        name
        for name, board in boards.items()
        if modules & {*board.nic.path, *board.nic.modules} or (shared and name in SHARED)
    ]
