"""The evidence that each source extracts from texts of real and unusual nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_pinet.evidence.counters import InterfaceCounters, Interrupts, NicCounters, SoftIrqs, Softnet
from pytest_pinet.evidence.counting import NARROW, grown, link_speed, rise, rises, rises_by_cpu, since
from pytest_pinet.evidence.node_state import (
    KernelMessages,
    Processors,
    Thermals,
    last_stamp,
    parse_temperature,
    troubles,
    uptime,
)
from pytest_pinet.evidence.sources import EvidenceSource, Texts
from pytest_pinet.model.evidence import EndEvidence, Heat, Throttling

NONE = EndEvidence("pi4b-1:onboard", "eth0", traffic_s=2.0)


def added(source: EvidenceSource, before: str, after: str) -> EndEvidence:
    return source.add(NONE, Texts(before, after))


# -- counters ---------------------------------------------------------------------------------------------------------


def test_a_counter_may_pass_the_end_of_its_32_bits_or_begin_anew() -> None:
    assert rise(5, 9) == 4
    assert rise(2**32 - 5, 3) == 8
    assert rise(1000, 3) is None
    assert rise(2**40, 3) is None


def test_counters_that_one_reading_lacks_are_left_out() -> None:
    assert rises({"a": 1, "gone": 5}, {"a": 3, "fresh": 7}) == {"a": 2}
    assert rises({"a": 1, "b": 9}, {"a": 3, "b": 2}) is None


def test_a_cpu_that_was_switched_off_is_left_out() -> None:
    assert rises_by_cpu({"x": {0: 1, 1: 1}}, {"x": {0: 4}}) == {"x": (3,)}


@pytest.mark.parametrize(
    "source",
    [
        Processors(),
        Interrupts(),
        SoftIrqs(),
        Softnet(),
        InterfaceCounters(),
        NicCounters(),
        KernelMessages(),
        Thermals(),
    ],
    ids=lambda source: source.name,
)
@pytest.mark.parametrize("text", ["", "\n", "hello", "cat: not found\n::\n: :", "\x00\xff 1 2 3", "0 0 0"])
def test_odd_texts_tell_nothing(source: EvidenceSource, text: str) -> None:
    assert added(source, text, text).restarted == ()
    found = added(source, text, text)
    told = (found.processors, found.interrupts, found.softirqs, found.interface, found.nic, found.before, found.kernel)
    assert not any(told)


# -- /proc/stat -------------------------------------------------------------------------------------------------------

BOOT = "b34e98b6-900d-4878-982a-e208fb836b9f"


def stat(up: float, *cpus: str, boot: str = BOOT) -> str:
    return "\n".join([f"{up} 400.00", boot, "cpu  9 9 9 9 9 9 9 9 0 0", *cpus])


def test_the_load_of_each_cpu_is_of_the_time_in_which_traffic_ran() -> None:
    before = stat(100.0, "cpu0 100 0 50 800 10 0 40 0 0 0", "cpu1 0 0 0 1000 0 0 0 0 0 0")
    after = stat(102.2, "cpu0 120 0 70 820 10 10 190 0 0 0", "cpu1 0 0 0 1200 10 0 10 0 0 0")
    found = added(Processors(), before, after)
    assert found.machine == BOOT
    assert found.window_s == pytest.approx(2.2)
    assert found.processors is not None
    first, second = found.processors
    # 200 of 220 ticks in 2.2 s, of which 2.0 s were traffic: idle time outside of traffic does not count.
    assert first.busy == pytest.approx(1.0)
    assert first.softirq == pytest.approx(150 / 200)
    assert first.irq == pytest.approx(10 / 200)
    assert first.interrupts == pytest.approx(0.8)
    assert second.busy == pytest.approx(10 / 220 * 1.1)
    assert found.busiest is first


def test_readings_far_from_the_traffic_are_not_scaled() -> None:
    before, after = stat(100.0, "cpu0 0 0 0 0 0 0 0 0"), stat(104.0, "cpu0 200 0 0 200 0 0 0 0")
    (load,) = added(Processors(), before, after).processors or ()
    assert load.busy == 0.5


def test_a_node_that_rebooted_has_no_load() -> None:
    after = stat(3.0, "cpu0 1 0 0 1 0 0 0 0", boot="another")
    found = added(Processors(), stat(100.0, "cpu0 0 0 0 0 0 0 0 0"), after)
    assert (found.processors, found.restarted) == (None, ("stat",))


def test_idle_ticks_may_fall_by_a_few() -> None:
    before, after = stat(1.0, "cpu0 0 0 0 100 5 0 0 0"), stat(3.0, "cpu0 100 0 0 200 4 0 0 0")
    (load,) = added(Processors(), before, after).processors or ()
    assert load.busy == pytest.approx(0.5)


def test_an_old_kernel_has_fewer_columns() -> None:
    before, after = stat(1.0, "cpu0 0 0 0 0 0"), stat(3.0, "cpu0 100 0 0 100 0")
    (load,) = added(Processors(), before, after).processors or ()
    assert (load.busy, load.softirq) == (0.5, 0.0)


@pytest.mark.parametrize(("text", "seconds"), [("12.34 5.6\nx", 12.34), ("", None), ("no", None)])
def test_the_uptime_of_a_reading(text: str, seconds: float | None) -> None:
    assert uptime(text) == seconds


# -- /proc/interrupts, softirqs, softnet ------------------------------------------------------------------------------

# A Pi 4 (6.1), the same NIC on two lines; and x86 with MSI.
PI4 = """           CPU0       CPU1       CPU2       CPU3
 11:     123456         11         12         13     GICv2  30 Level     arch_timer
 30:          0          0          0          0     GICv2 105 Level     fe980000.usb, dwc_otg
 38:      70000          0          0          0     GICv2 189 Level     eth0
 39:       8000          5          0          0     GICv2 190 Level     eth0
 54:    1000000          0          0          0  BRCM STB PCIe MSI 524288 Edge      xhci_hcd
IPI0:       100        200        300        400       Rescheduling interrupts
Err:          0
"""
X86 = """           CPU0       CPU1
 38:          0      11801 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 40:          7          0  IO-APIC   9-fasteoi   acpi
 41:          7          0  IO-APIC   1-edge
NMI:          0          0   Non-maskable interrupts
"""


def test_interrupts_are_named_by_what_they_are_for() -> None:
    assert Interrupts().parse(PI4) == {
        "arch_timer": {0: 123456, 1: 11, 2: 12, 3: 13},
        "fe980000.usb, dwc_otg": dict.fromkeys(range(4), 0),
        "eth0": {0: 78000, 1: 5, 2: 0, 3: 0},
        "xhci_hcd": {0: 1000000, 1: 0, 2: 0, 3: 0},
        "Rescheduling interrupts": {0: 100, 1: 200, 2: 300, 3: 400},
    }
    assert set(Interrupts().parse(X86)) == {"virtio2-input.0", "acpi", "irq 41", "Non-maskable interrupts"}


# Pi 1 (3.12), Pi 2 (4.9), Pi 3B+ (6.12), Pi 5 (6.6) and other machines: the lines that differ.
OTHERS = {
    " 32:   75437760   ARMCTRL  dwc_otg, dwc_otg_pcd, dwc_otg_hcd:usb1": "dwc_otg, dwc_otg_pcd, dwc_otg_hcd:usb1",
    "  3:   10494710   ARMCTRL  BCM2708 Timer Tick": "BCM2708 Timer Tick",
    " 77:    2412182   ARMCTRL  bcm2708_sdhci (dma)": "bcm2708_sdhci (dma)",
    " 75:          1   ARMCTRL": "irq 75",
    " 56:     123456  ARMCTRL-level  41 Edge      3f980000.usb, dwc_otg_hcd:usb1": "3f980000.usb, dwc_otg_hcd:usb1",
    " 51:  792383976  ARMCTRL-level  41 Edge      dwc_otg_sim-fiq": "dwc_otg_sim-fiq",
    " 18:         40  ARMCTRL-level   2 Edge      VCHIQ doorbell": "VCHIQ doorbell",
    " 24:         40  ARMCTRL-level   2 Edge": "irq 24",
    " 25:         40  ARMCTRL-level   3 Edge    ": "irq 25",
    "161:         88  bcm2836-timer   1 Edge      arch_timer": "arch_timer",
    "164:         88  bcm2836-pmu   9 Edge      arm-pmu": "arm-pmu",
    "166:          0  lan78xx-irqs  17 Edge      usb-001:004:01": "usb-001:004:01",
    "185:          7  pinctrl-bcm2835  25 Edge      enter_button": "enter_button",
    "182:       3732  pinctrl-bcm2835  16 Level     mcp2517fd": "mcp2517fd",
    "106:     141234  rp1_irq_chip   6 Level     eth0": "eth0",
    " 54:    1000000  BRCM STB PCIe MSI 524288 Edge      xhci_hcd": "xhci_hcd",
    "250:          1  PCI-MSIX-0000:01:00.0   5-edge      nvme 0 io5": "nvme 0 io5",
    "240:          1  ITS-PCI-MSIX-0000:86:00.0 40-edge  mlx5_comp40@pci:0000:86:00.0": "mlx5_comp40@pci:0000:86:00.0",
    " 29:       1234  GIC  29  twd": "twd",
    " 30:       1234  GIC  30": "irq 30",
    " 48:     123456   PCI-MSI-edge      eth0-rx-0": "eth0-rx-0",
    "100:       9876   xen-dyn    -event     eth0": "eth0",
    "101:       9876   xen-dyn    -event": "irq 101",
    " 12:          5  None": "irq 12",
}


@pytest.mark.parametrize(("line", "name"), OTHERS.items())
def test_interrupts_of_any_controller(line: str, name: str) -> None:
    assert list(Interrupts().parse(f"           CPU0       \n{line}\n")) == [name]


def test_only_messages_during_the_traffic_are_kept() -> None:
    after = PI4.replace("70000", "90000").replace("8000          5", "8000        105")
    assert added(Interrupts(), PI4, after).interrupts == {"eth0": (20000, 100, 0, 0)}


def test_interrupt_counters_that_restarted_give_no_difference() -> None:
    found = added(Interrupts(), PI4, PI4.replace("70000", "10"))
    assert (found.interrupts, found.restarted) == (None, ("interrupts",))


def test_softirqs_of_the_network() -> None:
    text = """                    CPU0       CPU1
          HI:          1          0
      NET_TX:        {0}          7
      NET_RX:        {1}          8
"""
    found = added(SoftIrqs(), text.format(100, 1000), text.format(150, 3000))
    assert found.softirqs == {"NET_TX": (50, 0), "NET_RX": (2000, 0)}


OLD = "0000000a 00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000"
NEW = "0772a377 00000001 00000033 00000000 00000000 00000000 00000000 00000000 00000000 00000002 00000000 00000000 {}"


def test_softnet_is_hexadecimal_and_grew_with_the_kernels() -> None:
    found = added(Softnet(), OLD, OLD.replace("0000000a", "0000001a"))
    assert found.softnet == {"processed": (16,), "dropped": (0,), "time_squeeze": (0,), "received_rps": (0,)}
    # The line of CPU 3; the others are off.
    before, after = NEW.format("00000003"), NEW.format("00000003").replace("00000033", "00000043")
    assert added(Softnet(), before, after).softnet == {
        "processed": (0,),
        "dropped": (0,),
        "time_squeeze": (16,),
        "received_rps": (0,),
    }
    # Before 2.6.36.
    assert added(Softnet(), OLD[:80], OLD[:80]).softnet == {"processed": (0,), "dropped": (0,), "time_squeeze": (0,)}


# -- the device -------------------------------------------------------------------------------------------------------


def test_counters_of_the_device_whatever_its_driver() -> None:
    text = "statistics/rx_bytes:{0}\nstatistics/rx_dropped:{1}\ncarrier_changes:{2}\n"
    found = added(InterfaceCounters(), text.format(2**32 - 100, 3, 1), text.format(400, 3, 3))
    assert found.interface == {"rx_bytes": 500, "rx_dropped": 0, "carrier_changes": 2}


def test_a_driver_that_was_loaded_anew() -> None:
    text = "statistics/rx_bytes:{0}\ncarrier_changes:{1}\n"
    found = added(InterfaceCounters(), text.format(5_000_000, 5), text.format(400, 2))
    assert (found.interface, found.restarted) == (None, ("interface",))


def test_bytes_that_passed_the_end_of_32_bits_more_than_once_are_left_out() -> None:
    text = "statistics/rx_bytes:{0}\nstatistics/rx_packets:{1}\n"
    assert added(InterfaceCounters(), text.format(3_000_000_000, 5), text.format(1, 9)).interface == {
        "rx_bytes": 2**32 - 3_000_000_000 + 1,
        "rx_packets": 4,
    }
    found = added(InterfaceCounters(), text.format(4_000, 5), text.format(1, 9))
    assert (found.interface, found.restarted) == ({"rx_packets": 4}, ())


def test_a_drivers_own_counters_that_changed() -> None:
    text = "NIC statistics:\n     rx_packets: {0}\n     rbuf_ovflow_cnt: {1}\n     tx_pause: 0\n     [0]: rx_bytes: 7\n"
    assert added(NicCounters(), text.format(10, 0), text.format(30, 4)).nic == {"rx_packets": 20, "rbuf_ovflow_cnt": 4}
    assert added(NicCounters(), "no stats available", "no stats available").nic is None


def test_a_level_among_the_counters_of_a_driver_is_not_a_restart() -> None:
    text = "     rx_packets: {0}\n     tx_packets: {1}\n     tx_queue_length: {2}\n"
    found = added(NicCounters(), text.format(10, 20, 7), text.format(30, 25, 3))
    assert (found.nic, found.restarted) == ({"rx_packets": 20, "tx_packets": 5}, ())
    found = added(NicCounters(), text.format(10, 20, 7), text.format(1, 2, 9))
    assert (found.nic, found.restarted) == (None, ("ethtool",))


GENET = """NIC statistics:
     rx_bytes: {0}
     tx_bytes: {1}
     rx_errors: 0
     rx_bytes: {2}
     tx_bytes: {3}
"""


@pytest.mark.parametrize("received", [10_000_000, 3_600_000_000, 5_000_000_000, 9_000_000_000])
def test_of_a_name_that_a_driver_prints_twice_the_64_bits_count(received: int) -> None:
    before = (5_902_401_346, 11_338_299_999, 1_645_673_308, 2_748_365_407)
    grown = (received, 70_000_000) * 2
    after = [old + more for old, more in zip(before, grown, strict=True)]
    after[2:] = [count % 2**32 for count in after[2:]]
    found = added(NicCounters(), GENET.format(*before), GENET.format(*after))
    assert (found.nic, found.restarted) == ({"rx_bytes": received, "tx_bytes": 70_000_000}, ())
    anew = added(NicCounters(), GENET.format(*before), GENET.format(9, 9, 9, 9))
    assert (anew.nic, anew.restarted) == (None, ("ethtool",))


# -- the kernel's log -------------------------------------------------------------------------------------------------


def test_lines_of_trouble_are_kept() -> None:
    after = (
        "[  100.1] eth0: Link is Up - 1Gbps/Full\n"
        "[  101.5] NETDEV WATCHDOG: eth0 (bcmgenet): transmit queue 2 timed out\n"
        "[  102.0] hwmon hwmon1: Undervoltage detected!\n"
        "[  103.0] macb 1f00100000.ethernet eth0: TX stall detected on queue 0 (tail=12 head=40); re-kicking TSTART\n"
        "[  104.0] usb 2-1: reset SuperSpeed USB device number 2 using xhci_hcd\n"
        "[  105.0] usb 2-1: new SuperSpeed USB device number 3 using xhci_hcd\nread"
    )
    assert added(KernelMessages(), "", after).kernel == (
        "[  101.5] NETDEV WATCHDOG: eth0 (bcmgenet): transmit queue 2 timed out",
        "[  102.0] hwmon hwmon1: Undervoltage detected!",
        "[  103.0] macb 1f00100000.ethernet eth0: TX stall detected on queue 0 (tail=12 head=40); re-kicking TSTART",
        "[  104.0] usb 2-1: reset SuperSpeed USB device number 2 using xhci_hcd",
    )


def test_a_log_that_may_not_be_read_is_not_one_without_trouble() -> None:
    assert added(KernelMessages(), "", "").kernel is None
    assert added(KernelMessages(), "", "read").kernel == ()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("[   12.500000] eth0: Link is Up", 12.5), ("", None), ("no stamps", None), ("[1.0] a\n[2.0] b", 2.0)],
)
def test_the_time_stamp_of_the_last_log_line_is_found(text: str, seconds: float | None) -> None:
    assert last_stamp(text) == seconds


# -- clock, temperature, throttling -----------------------------------------------------------------------------------

POLICY = "/sys/devices/system/cpu/cpufreq/policy0"


def test_the_clock_measured_by_the_firmware_overrides_the_requested_one() -> None:
    text = (
        "frequency(48)=600117184\nthrottled=0x50005\n/sys/class/thermal/thermal_zone0/temp:84231\n"
        f"{POLICY}/scaling_cur_freq:1500000\n{POLICY}/cpuinfo_max_freq:1500000\n"
    )
    assert parse_temperature(text) == Heat(600.117184, 1500.0, 84.231, Throttling(0x50005))


def test_without_the_firmwares_command() -> None:
    text = (
        f"{POLICY}/scaling_cur_freq:600000\n{POLICY.replace('0', '4')}/scaling_cur_freq:2400000\n"
        "/sys/devices/platform/soc/soc:firmware/get_throttled:50000\n"
    )
    assert parse_temperature(text) == Heat(2400.0, None, None, Throttling(0x50000))
    found = added(Thermals(), text, "")
    assert found.before is not None
    assert found.after is None


@pytest.mark.parametrize(
    ("old", "new", "moved"),
    [
        (10, 30, 20),
        (NARROW - 10, 30, 40),
        (NARROW + 10, NARROW + 30, 20),
        # No 32-bit counter holds this value: it restarted, and the difference is negative.
        (NARROW + 50, 30, 30 - NARROW - 50),
    ],
)
def test_the_difference_of_a_counter(old: int, new: int, moved: int) -> None:
    assert since(old, new) == moved


@given(st.integers(0, NARROW - 1), st.integers(0, NARROW - 1))
def test_a_narrow_counter_tells_what_was_moved_up_to_its_size(start: int, moved: int) -> None:
    assert since(start, (start + moved) % NARROW) == moved
    assert grown(start, (start + moved) % NARROW, moved) == moved


@given(st.integers(0, 2 * NARROW), st.integers(0, NARROW), st.integers(0, NARROW // 2))
def test_a_difference_is_never_more_than_possible(old: int, fell: int, most: int) -> None:
    found = grown(old, max(0, old - fell), most)
    assert found is None or 0 <= found <= most


@pytest.mark.parametrize(
    ("text", "mbps"),
    [("1000", 1000), ("2500", 2500), ("0", None), ("-1", None), ("65535", None), ("4294967295", None), ("", None)],
)
def test_an_unknown_speed_is_none(text: str, mbps: int | None) -> None:
    assert link_speed(text) == mbps


CUT = "[   12.000001] ------------[ cut here ]------------"
WARNED = "[   12.000003] WARNING: CPU: 0 PID: 7 at drivers/net/usb/lan78xx.c:1420 lan78xx_open+0x1c/0x40 [lan78xx]"
BODY = """\
[   12.000004] Modules linked in: lan78xx bcm2835_v4l2
[   12.000005] CPU: 0 PID: 7 Comm: kworker/0:1 Not tainted 6.12.25-v8+ #1
[   12.000006] Hardware name: Raspberry Pi 3 Model B Rev 1.2 (DT)
[   12.000007] Call trace:
[   12.000008]  lan78xx_open+0x1c/0x40 [lan78xx]
[   12.000009] ---[ end trace 0000000000000000 ]---
[   13.000000] eth0: renamed from eth1""".splitlines()


@pytest.mark.parametrize(
    "said",
    [
        [WARNED],
        ["[   12.000003][   T17] WARNING: CPU: 3 PID: 17 at net/core/dev.c:4 f+0x1/0x2"],
        ["[   12.000003] WARNING: net/core/dev.c:4 at f+0x1/0x2, CPU#3: kworker/17"],
        ["[   12.000003] kernel BUG at mm/slub.c:4321!"],
        ["[   12.000002] NETDEV WATCHDOG: eth0 (lan78xx): transmit queue 0 timed out 5000 ms", WARNED],
        ["[   12.000002] refcount_t: underflow; use-after-free.", WARNED],
    ],
)
def test_a_trace_is_quoted_by_what_it_says(said: list[str]) -> None:
    assert troubles([CUT, *said, *BODY]) == said


@pytest.mark.parametrize(
    "line",
    [
        "[   12.1] BUG: scheduling while atomic: swapper/0/0/0x00000002",
        "[   12.1] Unable to handle kernel NULL pointer dereference at virtual address 0000000000000008",
        "[   12.1] Internal error: Oops: 0000000096000004 [#1] PREEMPT SMP",
        "[   12.1] WARNING: possible circular locking dependency detected",
    ],
)
def test_a_trace_without_dashes_is_quoted_by_its_first_line(line: str) -> None:
    assert troubles([line, *BODY]) == [line]


def test_a_trace_that_says_nothing_else_is_quoted_by_its_dashes() -> None:
    assert troubles([CUT, *BODY]) == [CUT]
    assert troubles([CUT]) == [CUT]


def test_two_traces_are_two() -> None:
    assert troubles([CUT, WARNED, *BODY, CUT, WARNED.replace("12.", "14."), *BODY]) == [
        WARNED,
        WARNED.replace("12.", "14."),
    ]


def test_other_lines_with_such_a_word_are_no_trouble() -> None:
    assert troubles(["[    1.0] usb 1-1: WARNING: this device is old", "[    1.1] bcmgenet: Link is Up"]) == []
