"""The 24 reported regressions: what was seen, how it is injected here, and which test of the suite must catch it.

The rows come from a survey of issue threads, which kept twelve more of the same kinds back. RPL#N is
github.com/raspberrypi/linux/issues/N.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from benchmarks.regressions import injections as inject
from benchmarks.regressions.bench import Bench
from benchmarks.regressions.faster import TIMES
from benchmarks.regressions.injections import Injection

# Where a row is injected.
VIRTUAL = "virtual"
GUEST = "guest"
EMULATED = "emulated"
HARDWARE = "hardware only"

EVERYDAY = "pytest_pinet.suites.test_everyday"


@dataclass(frozen=True)
class Command:
    """What is run beside a row. Two rows with the same lab and the same command share the control.

    ``kind`` is ``test`` (pytest with a test of the suite), ``gate`` (`pinet gate` of a build) or ``watch``
    (`pinet watch`). ``build`` and ``unchanged`` are the builds of a gate and of its control, ``against`` the known-good
    build if it is not the one that the board runs. ``faster``: minutes of traffic are shorter (``faster.py``).
    """

    kind: str
    test: str = ""
    profile: str = "standard"
    options: tuple[str, ...] = ()
    build: str = ""
    unchanged: str = "unchanged.yaml"
    against: str = ""
    lab: str = "pair.yaml"
    faster: bool = False

    def __str__(self) -> str:
        return f"`{self.test}`, {self.profile}" if self.test else f"`pinet {self.kind}`"


@dataclass(frozen=True)
class Row:
    """One reported regression.

    ``scenario`` says what is injected; ``scale`` how much faster than in the report time passes. ``names`` is what the
    sentence of a failed result must contain (a regular expression), so that another failure is no catch.
    """

    number: int
    source: str
    kernel: str
    symptom: str
    where: str
    scenario: str = ""
    command: Command | None = None
    names: str = ""
    injection: Injection = field(default=lambda _: inject.nothing(), compare=False)
    control: Injection = field(default=lambda _: inject.nothing(), compare=False)
    scale: str = ""
    reason: str = ""

    def injected(self, bench: Bench) -> AbstractContextManager[None]:
        """Return the symptom of this row in a running lab, until the end of the context."""
        return self.injection(bench)

    def unchanged(self, bench: Bench) -> AbstractContextManager[None]:
        """Return the circumstances of the row without its symptom."""
        return self.control(bench)


ONBOARD = ("--pinet-board=pi5", "--pinet-nic=macb")
CARD = ("--pinet-board=pi5", "--pinet-nic=rtl8126")
BOARD = ("--pinet-board=pi5",)


def _test(name: str, profile: str = "standard", options: tuple[str, ...] = ONBOARD, faster: bool = False) -> Command:
    return Command("test", name, profile, options, faster=faster)


def _gate(
    build: str,
    lab: str = "pair.yaml",
    test: str = "test_line_rate",
    profile: str = "fast",
    options: tuple[str, ...] = ("--board=pi5", "--nic=macb"),
) -> Command:
    return Command("gate", test, profile, options, build, lab=lab)


_IN_B = _gate("regressed.yaml")
_GUEST = ("--nic=e1000e",)

ROWS = (
    Row(
        *(1, "RPL#5145", "5.15.56 -> .61, Pi 2/3 smsc95xx", "no network", VIRTUAL),
        scenario="in each boot of build B the link is up and nothing passes",
        command=_IN_B,
        names="does not reach|no answer|no traffic",
        injection=inject.in_build_b(inject.dead),
    ),
    Row(
        *(2, "RPL#7436", "6.12.75 -> 6.18.33, 3B+ lan78xx", "ethernet dead", VIRTUAL),
        scenario="in each boot of build B the NIC has no carrier",
        command=_IN_B,
        names="no link|no carrier",
        injection=inject.in_build_b(inject.pulled),
    ),
    Row(
        *(3, "RPL#5659", "6.1.54, CM4 + PCIe card", "panic at boot, AER", VIRTUAL),
        scenario="build B panics at each boot, because its root file system is not found, and not by a PCIe error",
        command=_gate("panics.yaml"),
        names="kernel panic",
    ),
    Row(
        *(5, "HAOS#4861, #4881", "6.12 -> 6.18, Pi 5 + Fritz!Box", "link down/up every 6-10 s", VIRTUAL),
        scenario="in each boot of build B the switch port goes down for 1 s every 8 s",
        command=_IN_B,
        names="link dropped|link drops",
        injection=inject.in_build_b(inject.flapping(8)),
    ),
    Row(
        *(6, "RPL#7343", "7.0.1 -> 7.1-rc1, Pi 5 PCIe", "835 -> 437 MB/s (NVMe), gen 3 lost", VIRTUAL),
        scenario="a 5 Gbit/s card carries 437/835 of its rate each way",
        command=_test("test_line_rate", "fast", CARD),
        names="below the limit",
        injection=inject.slower(437 / 835, interface="pcie"),
    ),
    Row(
        *(7, "DietPi#8103", "6.18 rockchip, Zero 3E", "87 % loss", VIRTUAL),
        scenario="in each boot of build B 87 % of the frames to the board are dropped at random",
        command=_IN_B,
        names="does not reach|no answer|no traffic|below the limit",
        injection=inject.in_build_b(inject.lost(0.87)),
    ),
    Row(
        *(10, "RPL#7304, 7365", "6.18.19-.32, Pi 4 genet", "rx frozen or 116 kbit/s after idle; panic", VIRTUAL),
        scenario="after idle time the board receives 116 kbit/s on the cable until its device is opened again",
        command=_test("test_idle"),
        names=r"first_second [^;]*below the limit|first_answer [^;]*above the limit|no answer",
        injection=inject.slow_after_idle(10, 116e3),
        scale="10 s of idle time for 5 minutes (1:30)",
    ),
    Row(
        *(11, "RPL#6855, 7511", "6.12, 6.18, Pi 5", "5-20 % loss idle, counters clean", VIRTUAL),
        scenario="12 % of the frames to an idle board are dropped at random, in no counter of the board",
        command=_test("test_idle"),
        names="idle_loss [^;]*above the limit",
        injection=inject.lost_when_idle(0.12),
    ),
    Row(
        *(13, "RPL#7372", "6.18.29, Pi 4", "eee=off ignored, down about every 2 min", VIRTUAL),
        scenario="the switch port goes down for 1 s every 2 minutes of scaled time",
        command=_test("test_without_a_drop", "soak", faster=True),
        names="link dropped",
        injection=inject.flapping(120 / TIMES),
        scale=f"10 minutes of traffic in {600 // TIMES} s, a drop every {120 // TIMES} s (1:{TIMES})",
    ),
    Row(
        *(14, "RPL#5239", "5.15.76, Pi 4 RTL8153", "reset within 10 min of --bidir", VIRTUAL),
        scenario="after 10 minutes (of scaled time) of load in both directions at once the link is gone for 3 s",
        command=_test("test_long_both_ways", "soak", faster=True),
        names="link dropped",
        injection=inject.reset_under_both_ways(600 / TIMES, 3),
        scale=f"15 minutes of traffic in {900 // TIMES} s, the reset after {600 // TIMES} s (1:{TIMES})",
    ),
    Row(
        *(15, "RPL#7568", "6.18.33 -> .39, 3B+ Wi-Fi", "RTT 7 -> 79 ms, 0 % loss", VIRTUAL),
        scenario="each frame to the board comes 72 ms later, on a cable in place of Wi-Fi",
        command=_test("test_ping", "fast"),
        names="round-trip time [^;]*above the limit",
        injection=inject.late(0.072),
    ),
    Row(
        *(17, "RPL#6832", "6.12.20, igc behind ASM1182e", "probe fails", EMULATED),
        scenario="the driver of the NIC is not loaded in build B: no device; e1000e in place of igc",
        command=_gate("no-nic.yaml", "guest.yaml", options=_GUEST),
        names="no driver|no network device",
    ),
    Row(
        *(18, "openwrt#17611", "23.05 -> 24.10, ipq40xx", "325 -> 200, one CPU", VIRTUAL),
        scenario="in each boot of build B, what the board forwards leaves it at 200/325 of the link's rate; its own "
        "traffic does not",
        command=_gate("regressed.yaml", test="test_nat", profile="soak"),
        names="below the limit",
        injection=inject.in_build_b(inject.slower_forwarding(200 / 325)),
    ),
    Row(
        *(20, "RPL#7339, 7471; talos", "6.17-6.18.44, Pi 5 macb", "tx frozen; per node-hours", VIRTUAL),
        scenario="the board's queue is not sent for 20 s, once a minute, while its peer pings it",
        command=Command("watch", options=("--for", "120 s")),
        names="sends nothing",
        injection=inject.stalls_under_pings(40, 20),
        control=inject.pings,
        scale="a stall a minute for one in some 15 minutes (1:15)",
    ),
    Row(
        *(21, "RPL#7200, openwrt#22759", "6.12.y backport; 25.12.1, Pi 5", "no traffic after replug", VIRTUAL),
        scenario="after each loss of the carrier nothing passes until the board's device is opened again",
        command=_test("test_recovery"),
        names="flaps? (was|were) bad",
        injection=inject.dead_after_replug,
    ),
    Row(
        *(22, "RPL#7024", ">= 6.15, Pi 4/CM4", "tx queue timeout, forward + local", VIRTUAL),
        scenario="the board stops sending for 10 s when it forwards and sends traffic of its own for 1 s",
        command=_test("test_background", "soak", BOARD),
        names="nothing arrived",
        injection=inject.frozen_tx_by_forwarding_and_local,
    ),
    Row(
        *(23, "RPL#6420, 7395", "Pi 5", "1 of 7 boots without LAN", VIRTUAL),
        scenario="each seventh boot has no carrier",
        command=_test("test_boots", "soak"),
        names="is bad: no link",
        injection=inject.no_link_in_a_boot(7),
    ),
    Row(
        *(24, "RPL#3850", "5.9, Pi 4", "1-3 of 10 boots ping 300-1000 ms", VIRTUAL),
        scenario="in 2 of 10 boots frames to the board come 300 to 1000 ms later",
        command=_test("test_boots", "soak"),
        names="is bad: slow ping",
        injection=inject.late_in_some_boots(10, (3, 8), (0.3, 0.6, 1.0)),
    ),
    Row(
        *(25, "RPL#4133", "5.4 -> 5.10, Pi 4", "900+ Mbit/s flat; IRQ +20-25 %, NFS unusable", GUEST),
        scenario="build B lets the NIC interrupt 250 times a second and build A 200 times, on a link of 10 Mbit/s",
        command=Command(
            *("gate", "test_line_rate", "fast", _GUEST, "dearer.yaml", "known-again.yaml", "known.yaml", "guest.yaml")
        ),
        names="more interrupts per Gbit",
    ),
    Row(
        *(26, "RPL#7566", "6.12.75, 6.18.39, Pi 5", "WAN 3-5 Mbit/s, LAN fine", GUEST),
        scenario="1 of 500 frames to the board is lost, which costs a LAN little and a path of 20 ms much",
        command=Command("test", "test_path", "standard", ("--pinet-board=virt",), lab="guests.yaml"),
        names="below the limit",
        injection=inject.lost(0.002, "pcie"),
    ),
    Row(
        *(29, "RPL#4552", "Pi 4 Wi-Fi", "62 -> 3 Mbit/s after 6-24 h", VIRTUAL),
        scenario="from the first traffic on the rate falls to 3/62 within 3 minutes, on a cable in place of Wi-Fi",
        command=Command("watch", options=("--for", "290 s", "--traffic", "0 s")),
        names="slow link",
        injection=inject.decay(3 / 62, 180),
        scale="3 minutes for 12 hours (1:240)",
    ),
    Row(
        *(33, "RPL#7515, 6912", "6.6 -> 6.12, CM5", "no PTP tx timestamp", HARDWARE),
        reason="the timestamp is made in the PHY of a Compute Module 5 (BCM54210PE), which no emulator has; no metric "
        "of the suite reads timestamps",
    ),
    Row(
        *(35, "armbian#8575", "5.15..6.16, Rock Pi S", "10 Mbit/s link carries nothing", HARDWARE),
        reason="the links of these labs keep their speed: QEMU's e1000e stays at 1000 Mbit/s whatever it advertises, "
        "and a virtual cable negotiates nothing. `test_speeds` is then skipped",
    ),
    Row(
        *(36, "raspberrypi-net-mods#6", "1.3.1 (2021-11), Pi 4", "eth0 up 90 s later", VIRTUAL),
        scenario="the carrier comes 90 s after the power",
        command=_test("test_boots", "soak"),
        names="is bad: no link",
        injection=inject.late_carrier(90),
    ),
)
BY_NUMBER: Mapping[int, Row] = {row.number: row for row in ROWS}
