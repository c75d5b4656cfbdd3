"""Real changes of NIC drivers and of the kernel around them, for the table in docs/explanation/exact.md.

A patch is against Debian's linux-source of the boards' own kernel. Most patches undo one commit of a driver's
history, so that the kernel with the commit is the known-good build. The first line of a patch names the commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PATCHES = Path(__file__).parent / "patches"


@dataclass(frozen=True)
class Change:
    """A change of a driver by ``patch``, or of the whole kernel by words of its command line or options of a module.

    ``board`` is the exact board that shows it, ``text`` says in a few words what changes. ``missed`` is the reason why
    a gate (``exact``, ``ordinary``, ``goodput``) does not see that builds with this change are slower, or faster.
    """

    board: str
    text: str
    patch: str = ""
    cmdline: str = ""
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    missed: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of this change, unique in CHANGES."""
        words = [f"{module}.{key}={value}" for module, own in self.options.items() for key, value in own.items()]
        return self.patch or f"{self.board}: {' '.join(filter(None, [self.cmdline, *words]))}"

    @property
    def origin(self) -> str:
        """What the change is, in one sentence."""
        return (PATCHES / f"{self.patch}.patch").read_text().partition("\n")[0] if self.patch else self.text


# The module that patches change, by board.
DRIVERS = {
    "aqc": "atlantic",
    "ax88179": "ax88179_178a",
    "cdc": "usbnet",
    "e1000e": "e1000e",
    "genet": "genet",
    "igb": "igb",
    "igc": "igc",
    "lan78xx": "lan78xx",
    "macb": "macb",
    "r8152": "r8152",
    "r8169": "r8169",
    "smsc95xx": "smsc95xx",
    "virtio-net": "virtio_net",
}
_FEW = "a few instructions of thousands are below its tolerance"
_FEW_FRAMES = "a poll of the exact board handles one or two frames, so GRO merges little and only costs"
_NO_MEMORY = "the time of a memory access is not emulated"
_PKTGEN_NOISE = "frames that pktgen sends differ by up to 7 % with any other binary"
_NO_RATE = "none of its three rates depends on it"
CHANGES = (
    Change("macb", "interrupts coalesced by software", patch="macb-coalesce"),
    Change("macb", "no check for lost interrupts", patch="macb-rx-pending", missed={"goodput": _FEW}),
    Change("macb", "sent packets freed in bulk", patch="macb-napi-consume"),
    Change("macb", "no padding by software", patch="macb-no-fcs"),
    Change(
        "e1000e",
        "GRO off",
        patch="e1000e-no-gro",
        missed=dict.fromkeys(("exact", "goodput"), _FEW_FRAMES),
    ),
    Change("e1000e", "TSO off", patch="e1000e-no-tso"),
    Change(
        "e1000e",
        "no xmit_more",
        patch="e1000e-no-xmit-more",
        missed={"ordinary": _NO_RATE, "goodput": _PKTGEN_NOISE},
    ),
    Change("e1000e", "small frames not from NAPI's cache", patch="e1000e-netdev-alloc"),
    Change(
        "e1000e",
        "queue stops too late",
        patch="e1000e-tx-dispatch",
        missed={"ordinary": _NO_RATE, "goodput": _PKTGEN_NOISE},
    ),
    Change(
        "e1000e",
        "rmb for dma_rmb",
        patch="e1000e-rmb",
        missed=dict.fromkeys(("exact", "ordinary", "goodput"), f"both barriers are one instruction; {_NO_MEMORY}"),
    ),
    Change("virtio-net", "sent packets freed one by one", patch="virtio_net-any-consume"),
    Change("virtio-net", "no xmit_more", patch="virtio_net-no-xmit-more"),
    Change("virtio-net", "callbacks enabled while sending", patch="virtio_net-callbacks", missed={"goodput": _FEW}),
    Change("virtio-net", "callbacks enabled while polling", patch="virtio_net-busy-poll", missed={"goodput": _FEW}),
    Change("virtio-net", "no NAPI for sent packets", options={"virtio_net": {"napi_tx": "0"}}),
    Change(
        "e1000e",
        "no interrupt throttling",
        options={"e1000e": {"InterruptThrottleRate": "0"}},
        missed={"goodput": _PKTGEN_NOISE},
    ),
    Change(
        "e1000e",
        "memory not cleared when allocated",
        cmdline="init_on_alloc=0",
        missed={"ordinary": "its exit code names slower builds only; its rates show the gain"},
    ),
    Change("e1000e", "memory cleared when freed", cmdline="init_on_free=1"),
    Change("e1000e", "bounce buffers", cmdline="swiotlb=force"),
    Change("e1000e", "threaded interrupts", cmdline="threadirqs"),
    Change("e1000e", "checks of SLUB", cmdline="slub_debug=FZPU"),
    Change("igb", "heads of packets copied", patch="igb-legacy-rx"),
    Change("igb", "pages not used again", patch="igb-no-reuse"),
    Change("igb", "sent packets freed one by one", patch="igb-any-consume"),
    Change("igb", "no prefetch", patch="igb-no-prefetch", missed={"goodput": f"{_FEW}; {_NO_MEMORY}"}),
    Change("genet", "short frames padded by software", patch="genet-software-padding"),
    Change("r8169", "SG and TSO on", patch="r8169-tso"),
    Change("r8169", "interrupts coalesced by software", patch="r8169-coalesce"),
    Change("r8152", "received frames copied as a whole", patch="r8152-no-frags"),
    Change(
        "ax88179",
        "received frames are clones",
        patch="ax88179_178a-truesize",
        missed={"exact": "a clone is cheaper than a copy; the memory that it keeps is no instruction"},
    ),
    Change("lan78xx", "TSO off", patch="lan78xx-no-tso"),
    Change("smsc95xx", "received frames are clones", patch="smsc95xx-truesize"),
    Change("smsc95xx", "sent frames aligned", patch="smsc95xx-align", missed={"goodput": _FEW}),
    Change("smsc95xx", "one frame per transfer", options={"smsc95xx": {"turbo_mode": "0"}}),
    Change("cdc", "byte queue limits", patch="usbnet-bql"),
    Change(
        "igc",
        "heads not from NAPI's cache",
        patch="igc-build-skb",
        missed=dict.fromkeys(("exact", "goodput"), "both ways to a head differ by less than its tolerance"),
    ),
    Change("aqc", "no interrupt moderation", options={"atlantic": {"aq_itr": "0"}}),
)
