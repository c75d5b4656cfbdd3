"""What exact boards are made of: QEMU's machines and NICs, the modules that a NIC needs, and QEMU's command line."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_pinet.emulated.machine import INSTRUCTION_SHIFT, TRANSLATED_MIB, processor_for
from pytest_pinet.evidence.fdt import DeviceTree, cells, text
from pytest_pinet.model.exact import BATCH, DOWN_UP, LINK, MULTICAST, REPLUG, USUAL_PAGES_KIB, VLAN

# The device under test, and its peer in the network namespace.
MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
# QEMU's id of the device under test in a slot.
SLOT_NIC = "dut"
# QEMU needs none of these rights: it starts no program, and changes neither its user nor its priority.
_SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
# nokaslr: a function has the same address in each boot. ipv6.disable: no frames that the traffic program did not send.
# cma: memory for DMA comes from the ordinary lists. In the contiguous area, the kernel looks at each used page before
# the place that it finds (isolate_single_pageblock). So the cost depends on what else lies there: an unchanged macb
# that was built again was called slower when its NIC was opened (down-up-tx, in each of five boots).
# cryptomgr.notests: Debian's kernel tests its ciphers, with two thirds of the instructions until the first window.
CMDLINE = "console=ttyAMA0,115200 loglevel=4 panic=-1 nokaslr ipv6.disable=1 cma=0 cryptomgr.notests=1"


@dataclass(frozen=True)
class ExactMachine:
    """QEMU's machine ``virt`` with so many processors of one type. Lab files have its ``name``.

    The NIC under test is in the ``slot``, from which it can be unplugged; empty text: on the board itself.
    """

    name: str
    processor: str = processor_for(USUAL_PAGES_KIB)
    processors: int = 1
    slot: str = ""

    def for_pages(self, pages_kib: int) -> ExactMachine:
        """Return the machine for a kernel with pages of this size. With another processor, it has another name."""
        processor = processor_for(pages_kib)
        if processor == self.processor:
            return self
        return replace(self, name=f"{self.name}-{processor.removeprefix('cortex-')}", processor=processor)


VIRT = ExactMachine("virt")
VIRT_SLOT = ExactMachine("virt-slot", slot="nic-slot")
MEMORY_MIB = 512
# The physical address of the kernel image: QEMU loads it 2 MiB above the begin of the memory.
KERNEL_AT = 0x40200000

# Where device models are in the machine "virt": NIC n has its registers at DEVICES_AT + n * PLACE and its interrupts
# from SPI DEVICES_SPI + n * LINES on (devices/device.h). QEMU uses neither these addresses nor SPIs from 176 on.
DEVICES_AT, PLACE = 0x0B000000, 0x100000
DEVICES_SPI, LINES = 176, 4
# In a device tree: an interrupt of the GIC that is shared by all processors, and is high while it lasts.
_SPI, _LEVEL_HIGH = 0, 4
# A range of a PCI bridge: memory with addresses of 32 bits, not prefetchable.
_PCI_MEMORY_32 = 0x02000000
# The memory that a NIC behind such a bridge reaches: less than 4 GiB, so that messages have an address of 32 bits.
_DMA_SIZE = 0x80000000
# The driver of the PCI Express bridge of the BCM2711, the only one that Raspberry Pi's kernels have.
BCM2711_BRIDGE = "pcie_brcmstb"


@dataclass(frozen=True)
class DeviceModel:
    """A model of a NIC that is added to QEMU: ``devices/SOURCE.c``. ``words`` stand behind its path.

    ``nodes`` returns what the device tree gets, from the tree that QEMU makes. An existing node gets more properties.
    """

    source: str
    nodes: Callable[[DeviceTree], DeviceTree]
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExactNic:
    """A NIC whose driver executes the same instructions in each boot: of QEMU itself, or a model that is added to it.

    ``driver`` is the driver's name, ``path`` are the modules whose functions are the driver's: the last one is the
    driver itself, before it are its PHY's and the drivers that it is built on. ``functions`` matches the names of
    these functions where they are built into the kernel. ``modules`` are further modules that the board needs if they
    are not built in. ``device`` is the name of QEMU's device or of the model's chip, with the properties of QEMU's
    device. ``qemu`` is the oldest version of QEMU that has the NIC, ``link`` the oldest known version in which its
    driver sees that its link is switched off. ``distance_us`` is the distance of single frames: longer than the driver
    and the kernel work on one, and a fraction of the kernel's tick (4 ms). ``windows`` are the kinds of traffic that
    only some boards measure (``traffic.MORE``).
    """

    driver: str
    device: str
    path: tuple[str, ...]
    functions: str
    modules: tuple[str, ...] = ()
    qemu: tuple[int, int] = (7, 2)
    properties: tuple[str, str] = ("", "")
    link: tuple[int, int] = (7, 2)
    model: DeviceModel | None = None
    distance_us: int = 500
    windows: tuple[str, ...] = ()


def _genet(tree: DeviceTree) -> DeviceTree:
    """Return the nodes of two GENETs, as in bcm2711.dtsi of Linux, each with its PHY."""
    found: dict[str, Mapping[str, bytes]] = {}
    for index, mac in enumerate(MACS):
        at, spi, phy = DEVICES_AT + index * PLACE, DEVICES_SPI + index * LINES, _free_phandle(tree) + index
        nic = f"/ethernet@{at:x}"
        found[nic] = {
            "compatible": text("brcm,bcm2711-genet-v5"),
            "reg": cells(0, at, 0, 0x10000),
            "interrupts": cells(_SPI, spi, _LEVEL_HIGH, _SPI, spi + 1, _LEVEL_HIGH),
            "#address-cells": cells(1),
            "#size-cells": cells(1),
            "local-mac-address": bytes.fromhex(mac.replace(":", "")),
            "phy-mode": text("rgmii-rxid"),
            "phy-handle": cells(phy),
        }
        found[f"{nic}/mdio@e14"] = {
            "compatible": text("brcm,genet-mdio-v5"),
            "reg": cells(0xE14, 8),
            "reg-names": text("mdio"),
            "#address-cells": cells(1),
            "#size-cells": cells(0),
        }
        found[f"{nic}/mdio@e14/ethernet-phy@1"] = {"reg": cells(1), "phandle": cells(phy)}
        # Without a number of its own, the second MDIO bus would have the name of the first one.
        found["/aliases"] = {**found.get("/aliases", {}), f"eth{index}": text(nic)}
    return found


def _gem(tree: DeviceTree) -> DeviceTree:
    """Return the nodes of two GEMs and their clocks, as in rp1.dtsi and bcm2712-rpi-5-b.dts of Raspberry Pi."""
    free = _free_phandle(tree)
    # Of the bus, of timestamps, and of Gigabit Ethernet.
    rates = {"clock-sys": 200_000_000, "clock-eth-tsu": 50_000_000, "clock-eth": 125_000_000}
    found: dict[str, Mapping[str, bytes]] = {
        f"/{name}": {
            "compatible": text("fixed-clock"),
            "clock-frequency": cells(rate),
            "#clock-cells": cells(0),
            "phandle": cells(free + number),
        }
        for number, (name, rate) in enumerate(rates.items())
    }
    for index, mac in enumerate(MACS):
        at, spi, phy = DEVICES_AT + index * PLACE, DEVICES_SPI + index * LINES, free + len(rates) + index
        found[f"/ethernet@{at:x}"] = {
            # Linux without Raspberry Pi's patches knows only the second name.
            "compatible": text("raspberrypi,rp1-gem") + text("cdns,macb"),
            "reg": cells(0, at, 0, 0x4000),
            "interrupts": cells(_SPI, spi, _LEVEL_HIGH),
            "#address-cells": cells(1),
            "#size-cells": cells(0),
            "clocks": cells(free, free, free + 1, free + 2),
            "clock-names": b"".join(map(text, ("pclk", "hclk", "tsu_clk", "tx_clk"))),
            "local-mac-address": bytes.fromhex(mac.replace(":", "")),
            "phy-mode": text("rgmii-id"),
            "phy-handle": cells(phy),
        }
        found[f"/ethernet@{at:x}/ethernet-phy@1"] = {
            "reg": cells(1),
            "phandle": cells(phy),
            "brcm,powerdown-enable": b"",
            "eee-broken-1000t": b"",
            "eee-broken-100tx": b"",
        }
    return found


def _xhci(_tree: DeviceTree) -> DeviceTree:
    """Return the node of one USB host controller (devices/xhci.h), whose ports have both adapters."""
    return {
        f"/usb@{DEVICES_AT:x}": {
            "compatible": text("generic-xhci"),
            "reg": cells(0, DEVICES_AT, 0, 0x4000),
            "interrupts": cells(_SPI, DEVICES_SPI, _LEVEL_HIGH),
        }
    }


def _pci(tree: DeviceTree) -> DeviceTree:
    """Return the nodes of two PCI Express bridges (devices/pci.h), as in bcm2711.dtsi of Linux, each with one NIC."""
    found: dict[str, Mapping[str, bytes]] = {}
    for index in range(len(MACS)):
        at, window = DEVICES_AT + index * PLACE, DEVICES_AT + (len(MACS) + index) * PLACE
        spi, bridge = DEVICES_SPI + index * LINES, cells(_free_phandle(tree) + index)
        found[f"/pcie@{at:x}"] = {
            "compatible": text("brcm,bcm2711-pcie"),
            "device_type": text("pci"),
            # QEMU's own bridge is domain 0.
            "linux,pci-domain": cells(1 + index),
            "#address-cells": cells(3),
            "#size-cells": cells(2),
            "reg": cells(0, at, 0, 0x9310),
            # The driver uses only the second one, that of messages.
            "interrupts": cells(_SPI, spi, _LEVEL_HIGH, _SPI, spi + 1, _LEVEL_HIGH),
            "ranges": cells(_PCI_MEMORY_32, 0, window, 0, window, 0, PLACE),
            "dma-ranges": cells(_PCI_MEMORY_32, 0, 0, 0, 0, 0, _DMA_SIZE),
            "msi-controller": b"",
            "msi-parent": bridge,
            "phandle": bridge,
        }
    return found


def _free_phandle(tree: DeviceTree) -> int:
    return 1 + max(int.from_bytes(node.get("phandle", b"")) for node in tree.values())


# The PHY of a Raspberry Pi 4 and 5.
_BCM54213PE = ("bcm_phy_lib", "broadcom")
_BCM54213PE_FUNCTIONS = r"bcm5|_{0,2}bcm_(phy|config|setup|linkmode)_|lre_|brcm_fet_"
_R8152 = (
    r"_{0,2}rtl(_|81)|r815|((generic|pla|usb)_)?ocp_|sram_(read|write)|(alloc|free)_(rx_agg|all_mem)"
    r"|(get|set)_(registers|ethernet_addr)|determine_ethernet_addr|vendor_mac_passthru_|rxdy_gated_en|wait_oob_"
    r"|(read|write|intr)_(bulk_)?callback$|bottom_half$|(rx|tx)_bottom$|set_(tx_qlen|carrier)$|fc_pause_|delay_autosuspend$"
    r"|(generic_)?mii_|(read|write)_mii_word"
)
_USBNET = (
    r"|(__)?usbnet_|__handle_(link_change|set_rx_mode)$|defer_bh$|build_dma_sg$|(intr|rx|tx)_complete$|rx_(alloc_)?submit|unlink_urbs$"
    r"|wait_skb_queue_empty$|(generic_)?mii_"
)
# What adapters and their drivers know: r8152 does not clear the halt of an endpoint, and only two chips give the sum of
# all octets, in which padding counts.
_SHORT = ("fault-checksum", "fault-overrun", "fault-short")
_HALTS = (*_SHORT, "fault-stall")
_SUMS = (*_HALTS, "fault-padding")
# Cards check checksums themselves, so the padding of a short frame is no fault for them.
_CARD = (BATCH, VLAN, MULTICAST, "fault-checksum", "fault-overrun", DOWN_UP, LINK)


def _usb(
    driver: str,
    device: str,
    path: tuple[str, ...],
    functions: str,
    source: str,
    windows: tuple[str, ...],
    words: tuple[str, ...] = (),
) -> ExactNic:
    """Return a USB adapter. The module of its host controller works on each frame, but is not the driver under test."""
    model = DeviceModel(source, _xhci, words)
    # A received frame takes 0.47 ms, and one large request of smsc95xx more than 8 ms.
    return ExactNic(
        driver,
        device,
        path,
        functions,
        ("xhci_plat_hcd",),
        model=model,
        distance_us=1000,
        windows=(BATCH, VLAN, *windows, LINK, REPLUG),
    )


# The driver of the PCI Express bridge of QEMU's machine "virt". Raspberry Pi's kernels do not have it.
_QEMU_BRIDGE = "pci_host_generic"
# By default, another thread of QEMU sends the frames, at a time that depends on the host: no boot would repeat.
_VIRTIO = "ioeventfd=off,tx=timer,x-txtimer=2000"
# In Debian's kernels 6.1.192-3 and 6.12.117-1, the patterns match all functions of the modules but copies of inlined
# helpers and trace points (tests/functional/exact/test_machines.py), and functions that the compiler inlined there.
NICS: Mapping[str, ExactNic] = {
    "e1000e": ExactNic(
        "e1000e", "e1000e", ("e1000e",), r"_{0,2}e1000e?_|__ew32|reg_(pattern|set)_", (_QEMU_BRIDGE,), link=(10, 0)
    ),
    # The virtual functions of one NIC take the bus addresses behind its own, from 16 slots on.
    "igb": ExactNic(
        "igb",
        "igb",
        ("igb",),
        r"_{0,2}igb_|enable_fqtss|set_(queue_mode|tx_desc)|reg_pattern_",
        (_QEMU_BRIDGE,),
        qemu=(8, 0),
        properties=("addr=1", "addr=4"),
        # With 0.5 ms, the kernel still worked at the begin of 76 of 256 intervals (QEMU 10.0.2, Debian's 6.1).
        distance_us=1000,
    ),
    "virtio": ExactNic(
        "virtio_net",
        "virtio-net-pci",
        ("virtio_net",),
        r"_?virtnet_|virtio_net_driver_|(__)?free_old_xmit|start_xmit$|receive_buf$|page_to_skb$|try_fill_recv$|refill_work$"
        r"|put_xdp_frags$|skb_(recv|xmit)_done$|free_receive_page_frags$|mergeable_|buf_(free|to_xdp)$|remove_vq_common$"
        r"|xdp_linearize_page$|xsk_(construct_skb|drop_follow)|check_sq_full|enable_rx_mode_work$",
        (_QEMU_BRIDGE, "virtio_pci"),
        properties=(_VIRTIO, _VIRTIO),
    ),
    "gem": ExactNic(
        "macb",
        "gem",
        (*_BCM54213PE, "macb"),
        r"(macb|gem|at91ether|fu540)_|hw_(is_|readl|writel)|init_reset_optional|ptp_one_step_sync|hash_(get|bit)_"
        r"|discard_partial_frame|" + _BCM54213PE_FUNCTIONS,
        model=DeviceModel("gem", _gem),
        windows=_CARD,
    ),
    "genet": ExactNic(
        "bcmgenet",
        "genet",
        ("mdio_bcm_unimac", *_BCM54213PE, "genet"),
        r"(__)?bcmgenet_|(init|reset)_umac$|umac_enable_|unimac_mdio_|" + _BCM54213PE_FUNCTIONS,
        ("of_mdio",),
        model=DeviceModel("genet", _genet),
        windows=(*_CARD, "fault-padding"),
    ),
    "rtl8153": _usb("r8152", "rtl8153", ("mii", "r8152"), _R8152, "r8152", (MULTICAST, *_SHORT)),
    "rtl8156b": _usb("r8152", "rtl8156b", ("mii", "r8152"), _R8152, "r8152", (MULTICAST, *_SHORT), ("chip=rtl8156b",)),
    "ax88179": _usb(
        "ax88179_178a",
        "ax88179",
        ("mii", "usbnet", "ax88179_178a"),
        r"(__)?ax88179_" + _USBNET,
        "ax88179",
        (MULTICAST, *_HALTS),
    ),
    "ax88772b": _usb(
        "asix",
        "ax88772b",
        ("mii", "usbnet", "ax88796b", "asix"),
        r"(__|reset_)?asix_|ax88(172|178|772)|marvell_(led_status|phy_init)$|rtl8211cl_phy_init$" + _USBNET,
        "ax88772",
        # The driver asks its PHY each second, which takes 5 ms over USB. In the longer windows fault-short (a message
        # of the driver for each fault) and fault-stall, it depends on the binary how many turns this meets.
        (MULTICAST, "fault-checksum", "fault-overrun"),
    ),
    "lan7800": _usb(
        "lan78xx",
        "lan7800",
        ("microchip", "lan78xx"),
        r"lan(78|88xx|8835|937x_tx)|(intr|rx|tx)_complete$|defer_bh$|rx_submit|unlink_urbs$|irq_(un)?map$|ksz9031rnx_fixup",
        "lan78xx",
        (MULTICAST, *_SUMS),
    ),
    "lan9514": _usb(
        "smsc95xx",
        "lan9514",
        ("mii", "usbnet", "smsc", "smsc95xx"),
        r"smsc|lan(87|95)" + _USBNET,
        "smsc95xx",
        (MULTICAST, *_SUMS),
    ),
    "cdc": _usb(
        "cdc_ether",
        "cdc",
        ("mii", "usbnet", "cdc_ether"),
        r"cdc_|is_\w*(rndis|activesync)$|speed_change$" + _USBNET,
        "cdc",
        # A gadget does not filter multicast groups.
        _HALTS,
    ),
    "rtl8125b": ExactNic(
        "r8169",
        "rtl8125b",
        ("realtek", "r8169"),
        r"_{0,2}rtl|r8169_|(__)?r8168|mac_mcu_|genphy_no_config_intr",
        (BCM2711_BRIDGE,),
        model=DeviceModel("r8169", _pci),
        windows=_CARD,
    ),
    "i226": ExactNic(
        "igc",
        "i226",
        ("igc",),
        r"(__)?igc_|reg_(pattern|set)_",
        (BCM2711_BRIDGE,),
        model=DeviceModel("igc", _pci),
        windows=_CARD,
    ),
    "aqc107": ExactNic(
        "atlantic",
        "aqc107",
        ("atlantic",),
        r"(__)?(aq|hw_atl2?)_|atl_|a2_fw_|apply_[rt]xsc_cfg|(get|set)_raw_(in|e)gress_record|eee_mask_to_ethtool_mask",
        (BCM2711_BRIDGE,),
        model=DeviceModel("aqc", _pci),
        # The driver learns the count of its frames once a second, too late for MULTICAST.
        windows=tuple(one for one in _CARD if one != MULTICAST),
    ),
}
# The machines that exact boards can be made of, each with its NICs by their names in NICS and in lab files. A lab file
# (lab/exact.yaml) says which boards exist.
PARTS: Mapping[ExactMachine, tuple[str, ...]] = {
    VIRT: (
        "e1000e",
        "igb",
        "virtio",
        "gem",
        "genet",
        "rtl8125b",
        "i226",
        "aqc107",
        "rtl8153",
        "rtl8156b",
        "ax88179",
        "ax88772b",
        "lan7800",
        "lan9514",
        "cdc",
    ),
    VIRT_SLOT: ("e1000e", "virtio"),
}


@dataclass(frozen=True)
class ExactBoard:
    """A machine with two NICs of one kind, which QEMU connects."""

    name: str
    machine: ExactMachine
    nic: ExactNic


def machine_arguments(machine: ExactMachine) -> list[str]:
    """Return the value of ``-machine``, and the other arguments on which QEMU's device tree depends."""
    # dtb-randomness: QEMU would write random seeds into the device tree.
    own = ["virt,gic-version=2,dtb-randomness=off", "-cpu", machine.processor]
    return [*own, "-m", f"{MEMORY_MIB}M", "-smp", str(machine.processors)]


def arguments(board: ExactBoard, kernel: Path, initramfs: Path, cmdline: str, memory: int) -> list[str]:
    """Return QEMU's arguments. ``memory`` is the descriptor of the file that is the guest's memory."""
    machine, *more = machine_arguments(board.machine)
    argv = ["-machine", f"{machine},memory-backend=ram", *more]
    argv += ["-object", f"memory-backend-file,id=ram,size={MEMORY_MIB}M,mem-path=/proc/self/fd/{memory},share=on"]
    # sleep=off: while the guest is idle, its clock jumps to the next timer, so the host's time plays no part.
    argv += ["-icount", f"shift={INSTRUCTION_SHIFT},sleep=off", "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"]
    argv += ["-accel", f"tcg,tb-size={TRANSLATED_MIB}", "-nodefaults", "-no-user-config", "-display", "none"]
    argv += ["-no-reboot", "-sandbox", _SANDBOX, "-monitor", "none", "-serial", "stdio"]
    argv += ["-kernel", str(kernel), "-initrd", str(initramfs), "-append", cmdline]
    if board.machine.slot:
        argv += ["-device", f"pcie-root-port,id={board.machine.slot},chassis=1"]
    # A device model is a plugin, which brings both NICs.
    for index in range(0 if board.nic.model is not None else len(MACS)):
        argv += ["-netdev", f"hubport,id=nic{index},hubid=0"]
        argv += ["-device", ",".join([board.nic.device, *(f"{k}={v}" for k, v in properties(board, index).items())])]
    return argv


def shell_line(machine: str, device: str, processors: int, cmdline: str) -> str:
    """Return the shell's command line that boots a recorded board; empty if no board has this machine and device.

    The files Image, initramfs and memory are in the current folder. A NIC with a model needs its plugin, too.
    """
    machines = [one.for_pages(pages) for one in PARTS for pages in (4, 16, 64)]
    found = next((one for one in machines if one.name == machine), None)
    nic = next((one for one in NICS.values() if one.device == device), None)
    if found is None or nic is None or processors not in (1, 2):
        return ""
    board = ExactBoard(device, replace(found, processors=processors), nic)
    argv = arguments(board, Path("Image"), Path("initramfs"), cmdline, memory=3)
    return f"{shlex.join(['qemu-system-aarch64', *argv])} 3<>memory"


def properties(board: ExactBoard, index: int) -> dict[str, str]:
    """Return QEMU's properties of a NIC of a board: 0 is the NIC under test, 1 its peer."""
    own = dict(word.split("=") for word in board.nic.properties[index].split(",") if word)
    place = {"bus": board.machine.slot, "id": SLOT_NIC} if board.machine.slot and index == 0 else {}
    return {"netdev": f"nic{index}", "mac": MACS[index], "romfile": "", **own, **place}
