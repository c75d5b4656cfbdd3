"""Settings of ethtool, ip and tc, with outputs of real drivers."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.model.tuning import SettingOutcome
from pytest_pinet.tuning.registry import setting as find_setting
from tests.support.tuning_node import Bench

# Raspberry Pi 5, macb.
RING = """\
Ring parameters for eth0:
Pre-set maximums:
RX:             8192
RX Mini:        n/a
RX Jumbo:       n/a
TX:             4096
Current hardware settings:
RX:             512
RX Mini:        n/a
RX Jumbo:       n/a
TX:             512
RX Buf Len:     n/a
CQE Size:       n/a
TX Push:        off
"""
# Raspberry Pi 4, genet.
COALESCE = """\
Coalesce parameters for eth0:
Adaptive RX: off  TX: n/a
stats-block-usecs: n/a
sample-interval: n/a
pkt-rate-low: n/a

rx-usecs: 57
rx-frames: 1
rx-usecs-irq: n/a

tx-usecs: n/a
tx-frames: 1
"""
PAUSE = """\
Pause parameters for eth0:
Autonegotiate:  on
RX:             off
TX:             off
RX negotiated: {rx}
TX negotiated: {tx}
"""
EEE = """\
EEE settings for eth0:
        EEE status: {status}
        Tx LPI: 34 (us)
        Supported EEE link modes:  100baseT/Full
                                   1000baseT/Full
"""
FEATURES = """\
Features for eth0:
rx-checksumming: on
tx-checksumming: on
\ttx-checksum-ipv4: off [fixed]
\ttx-checksum-ip-generic: on
\ttx-checksum-ipv6: off [fixed]
scatter-gather: on
\ttx-scatter-gather: on
\ttx-scatter-gather-fraglist: off [fixed]
tcp-segmentation-offload: on
\ttx-tcp-segmentation: on
\ttx-tcp-ecn-segmentation: off [fixed]
\ttx-tcp6-segmentation: on
generic-segmentation-offload: on
generic-receive-offload: on
large-receive-offload: off [fixed]
receive-hashing: off [fixed]
"""
# Stores each output in a file. A setter changes the named words and all of "also".
ETHTOOL = f"""\
#!{sys.executable}
import pathlib, re, sys
option, words = sys.argv[1], sys.argv[3:]
state = pathlib.Path(__file__).parent / "state"
shown = {{"-G": "-g", "-C": "-c", "-A": "-a", "-K": "-k", "--set-eee": "--show-eee"}}
file = state / shown.get(option, option)
if not file.exists():
    sys.exit("netlink error: Operation not supported")
text = file.read_text()
if option not in shown:
    print(text, end="")
    sys.exit()
with (state / "calls").open("a") as calls:
    print(*sys.argv[1:], file=calls)
names = {{"tso": ["tcp-segmentation-offload", "tx-tcp-segmentation", "tx-tcp6-segmentation"], "tx": "tx-checksumming",
          "gso": "generic-segmentation-offload", "gro": "generic-receive-offload"}}
for word, value in zip(words[::2], words[1::2]):
    if option == "-G":
        head, middle, tail = text.partition("Current")
        text = head + middle + re.sub(rf"(?m)^({{word.upper()}}: +)\\d+", rf"\\g<1>{{value}}", tail)
    elif option == "-A":
        text = re.sub(rf"(?m)^({{word.upper()}}: +)\\w+", rf"\\g<1>{{value}}", text)
    elif option == "--set-eee":
        text = re.sub("status: .*", "status: " + ("enabled - active" if value == "on" else "disabled"), text)
    elif word == "adaptive-rx":
        text = re.sub("Adaptive RX: .+?  ", f"Adaptive RX: {{value}}  ", text)
    else:
        lines = names.get(word, word)
        for line in [lines] if isinstance(lines, str) else lines:
            text = re.sub(rf"(?m)^(\\s*{{line}}: )\\w+", rf"\\g<1>{{value}}", text)
file.write_text(text)
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    found = Bench(tmp_path)
    found.command("ethtool", ETHTOOL)
    return found


def show(bench: Bench, option: str, output: str) -> Path:
    """Set the output of ``ethtool OPTION``."""
    file = bench.bin / "state" / option
    file.parent.mkdir(exist_ok=True)
    file.write_text(output)
    return file


def calls(bench: Bench) -> list[str]:
    return (bench.bin / "state" / "calls").read_text().splitlines()


def test_a_ring_is_what_the_hardware_uses_not_what_it_could(bench: Bench) -> None:
    file = show(bench, "-g", RING)
    tuned = bench.apply("ring_rx", 2048)
    assert (tuned.outcome, tuned.before, tuned.found) == (SettingOutcome.APPLIED, "512", "2048")
    bench.undo()
    assert file.read_text() == RING
    assert calls(bench) == ["-G eth0 rx 2048", "-G eth0 rx 512"]


def test_a_driver_without_rings(bench: Bench) -> None:
    tuned = bench.apply("ring_tx", 256)
    assert (tuned.outcome, tuned.why) == (SettingOutcome.UNSUPPORTED, "'ethtool -g eth0': Operation not supported")


def test_without_ethtool(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.command("ethtool", "#!/bin/sh\nexit 127\n")
    assert bench.apply("tso", "off").why == "node has no ethtool (sudo apt-get install ethtool)"


def test_coalescing(bench: Bench) -> None:
    file = show(bench, "-c", COALESCE)
    assert bench.apply("rx_usecs", 10).outcome is SettingOutcome.APPLIED
    assert bench.apply("adaptive_rx", True).found == "on"
    assert bench.apply("tx_usecs", 10).why == "the driver of eth0 has no tx-usecs"
    assert bench.apply("adaptive_tx", True).why == "the driver of eth0 has no adaptive-tx"
    bench.undo()
    assert file.read_text() == COALESCE


def test_an_offload_and_the_parts_that_change_along(bench: Bench) -> None:
    file = show(bench, "-k", FEATURES)
    tuned = bench.apply("tso", False)
    assert (tuned.outcome, tuned.asked, tuned.found) == (SettingOutcome.APPLIED, "off", "off")
    assert "tx-tcp6-segmentation: off" in file.read_text()
    bench.undo()
    assert file.read_text() == FEATURES
    # The group comes first: it also sets features that were off before and after, which are then written back.
    assert calls(bench)[-1].startswith("-K eth0 tso on ")
    assert "tx-tcp-segmentation on tx-tcp6-segmentation on" in calls(bench)[-1]


def test_the_undo_leaves_a_group_alone_that_did_not_change(bench: Bench) -> None:
    show(bench, "-k", FEATURES)
    setting = find_setting("tso")
    before = setting.read(bench.place, "off")
    after = replace(before, values={**before.values, "tx-tcp6-segmentation": "off"})
    assert setting.restore(bench.place, before, after) == "ethtool -K eth0 tx-tcp6-segmentation on"
    assert setting.restore(bench.place, before, before) == "true"


def test_before_it_is_read_back_the_journal_knows_the_whole_list(bench: Bench) -> None:
    show(bench, "-k", FEATURES)
    setting = find_setting("tso")
    script = setting.restore(bench.place, setting.read(bench.place, "off"), None)
    assert "gro on" in script
    assert "lro" not in script


def test_a_fixed_offload_is_unsupported_unless_it_is_so(bench: Bench) -> None:
    show(bench, "-k", FEATURES)
    assert bench.apply("lro", "on").why == "large-receive-offload of eth0 is always off ([fixed])"
    assert bench.apply("lro", "off").outcome is SettingOutcome.UNCHANGED


def test_eee_is_negotiated(bench: Bench) -> None:
    file = show(bench, "--show-eee", EEE.format(status="enabled - inactive"))
    assert bench.apply("eee", "on").why == "the link partner does not use EEE: enabled - inactive"
    assert bench.apply("eee", "off").outcome is SettingOutcome.APPLIED
    file.write_text(EEE.format(status="not supported"))
    assert bench.apply("eee", "off").why == "EEE of eth0 is not supported"


def test_pause_frames_count_as_negotiated(bench: Bench) -> None:
    file = show(bench, "-a", PAUSE.format(rx="off", tx="off"))
    tuned = bench.apply("flow_control", "on")
    assert tuned.outcome is SettingOutcome.UNSUPPORTED
    assert tuned.why == "the switch port did not agree: negotiated rx off, tx off"
    bench.undo()
    file.write_text(PAUSE.format(rx="on", tx="off"))
    tuned = bench.apply("flow_control", "rx")
    assert (tuned.outcome, tuned.found) == (SettingOutcome.APPLIED, "rx on, tx off")
    bench.undo()
    assert file.read_text() == PAUSE.format(rx="on", tx="off")


# Writes the device's file like ip, up to the driver's maximum.
IP = '#!/bin/sh\n[ "$6" -le 9000 ] || { echo "Error: mtu greater than device maximum." >&2; exit 2; }\necho "$6" > '


def test_an_mtu_is_tried_on_the_way(tmp_path: Path) -> None:
    bench = Bench(tmp_path, others=("198.18.0.2",))
    file = bench.device_file("mtu", "1500")
    bench.command("ip", f"{IP}{file}\n")
    bench.command("ping", f'#!/bin/sh\nprintf "%s " "$@" >> {tmp_path}/pings\n')
    assert bench.apply("mtu", 9000).outcome is SettingOutcome.APPLIED
    assert (tmp_path / "pings").read_text().strip() == "-n -q -c 2 -i 0.2 -W 1 -I eth0 -s 8972 -M do 198.18.0.2"
    bench.undo()
    assert file.read_text() == "1500\n"


def test_an_mtu_that_the_device_has_not(bench: Bench) -> None:
    file = bench.device_file("mtu", "1500")
    bench.command("ip", f"{IP}{file}\n")
    tuned = bench.apply("mtu", 16000)
    assert (tuned.outcome, tuned.found, tuned.why) == (
        SettingOutcome.REJECTED,
        "1500",
        "mtu greater than device maximum",
    )


def test_a_switch_that_drops_large_frames_makes_the_result_invalid(tmp_path: Path) -> None:
    bench = Bench(tmp_path, others=("198.18.0.2",))
    file = bench.device_file("mtu", "1500")
    bench.command("ip", f"{IP}{file}\n")
    bench.command("ping", "#!/bin/sh\nexit 1\n")
    with pytest.raises(InvalidMeasurement, match="packets of 9000 bytes from node:onboard do not reach 198"):
        bench.apply("mtu", 9000)
    bench.undo()
    assert file.read_text() == "1500\n"


def test_busybox_has_no_path_discovery_in_ping(tmp_path: Path) -> None:
    bench = Bench(tmp_path, others=("198.18.0.2",))
    bench.command("ip", f"{IP}{bench.device_file('mtu', '1500')}\n")
    bench.command("ping", '#!/bin/sh\ncase "$*" in *-M*) echo "ping: invalid option -- M" >&2; exit 1 ;; esac\n')
    assert bench.apply("mtu", 9000).outcome is SettingOutcome.APPLIED


TC = """\
#!/bin/sh
state=$(dirname "$0")/qdisc
case "$*" in
"qdisc show dev eth0") cat "$state" ;;
"qdisc replace dev eth0 root "*) echo "qdisc ${*##* } 8001: root refcnt 2 limit 10240p" > "$state" ;;
"qdisc del dev eth0 root") echo "qdisc pfifo_fast 0: root refcnt 2 bands 3" > "$state" ;;
*) echo "Error: Specified qdisc kind is unknown." >&2; exit 2 ;;
esac
"""


def test_a_qdisc_goes_back_to_what_the_kernel_chooses(bench: Bench) -> None:
    bench.command("tc", TC)
    state = bench.bin / "qdisc"
    state.write_text("qdisc pfifo_fast 0: root refcnt 2 bands 3 priomap  1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1\n")
    tuned = bench.apply("qdisc", "fq_codel")
    assert (tuned.outcome, tuned.before, tuned.found) == (SettingOutcome.APPLIED, "pfifo_fast", "fq_codel")
    bench.undo()
    assert state.read_text().startswith("qdisc pfifo_fast 0:")


def test_a_qdisc_that_somebody_set_is_not_touched(bench: Bench) -> None:
    bench.command("tc", TC)
    (bench.bin / "qdisc").write_text(
        "qdisc tbf 1: root refcnt 2 rate 1Gbit burst 500Kb lat 4ms\nqdisc htb 2: parent 1:1\n"
    )
    tuned = bench.apply("qdisc", "fq")
    assert tuned.outcome is SettingOutcome.UNSUPPORTED
    assert tuned.why == "the system has set qdisc tbf 1: on eth0, which could not be restored exactly"


def test_each_queue_of_a_nic_gets_its_qdisc(bench: Bench) -> None:
    log = bench.bin / "log"
    queues = "".join(f"qdisc fq_codel 0: parent :{number} limit 10240p\n" for number in (2, 1))
    bench.command("tc", f'#!/bin/sh\n[ "$2" = show ] && exec cat {bench.bin}/qdisc; echo "$@" >> {log}\n')
    (bench.bin / "qdisc").write_text(f"qdisc mq 0: root\n{queues}")
    assert bench.apply("qdisc", "fq_codel").outcome is SettingOutcome.UNCHANGED
    bench.apply("qdisc", "pfifo")
    assert log.read_text().splitlines() == [
        "qdisc replace dev eth0 root handle 1: mq",
        "qdisc replace dev eth0 parent 1:1 pfifo",
        "qdisc replace dev eth0 parent 1:2 pfifo",
    ]


# QEMU's e1000e with Debian's kernel 6.1, which takes what it advertises and stays at 1000 Mbit/s.
SPEED = """\
Settings for eth0:
\tSupported ports: [ TP ]
\tSupported link modes:   10baseT/Half 10baseT/Full
\t                        100baseT/Half 100baseT/Full
\t                        1000baseT/Full
\tSupported pause frame use: No
\tSupports auto-negotiation: Yes
\tSupported FEC modes: Not reported
\tAdvertised link modes:  {modes}
\tAdvertised pause frame use: {pause}
\tAdvertised auto-negotiation: {negotiates}
\tAdvertised FEC modes: Not reported
\tSpeed: {speed}Mb/s
\tDuplex: {duplex}
\tAuto-negotiation: {negotiates}
\tPort: Twisted Pair
\tLink detected: yes
"""
ALL_MODES = "\n\t                        ".join(
    ("10baseT/Half 10baseT/Full", "100baseT/Half 100baseT/Full", "1000baseT/Full")
)


def speed_bench(bench: Bench, pause: str = "No", negotiates: str = "on", follows: bool = True) -> None:
    """Add an ethtool that stores the advertised modes, and a device that follows it or stays at 1000 Mbit/s."""
    words = {"pause": pause, "negotiates": negotiates}
    masks = {"8": "100baseT/Full", "1": "10baseT/Half", "2f": ALL_MODES, "602f": ALL_MODES}
    for mask, modes in masks.items():
        speed, duplex = {"8": (100, "full"), "1": (10, "half")}.get(mask, (1000, "full")) if follows else (1000, "full")
        shown = SPEED.format(modes=modes, speed=speed, duplex=duplex.capitalize(), **words)
        (bench.bin / f"0x{mask}").write_text(shown)
        (bench.bin / f"0x{mask}.speed").write_text(f"{speed}\n")
        (bench.bin / f"0x{mask}.duplex").write_text(f"{duplex}\n")
    (bench.bin / "now").write_text((bench.bin / "0x2f").read_text())
    speed_file, duplex_file = bench.device_file("speed", "1000"), bench.device_file("duplex", "full")
    bench.command(
        "ethtool",
        f"#!/bin/sh\ncd {bench.bin}\n[ $# = 1 ] && exec cat now\n[ -e $4 ] || exit 1\n"
        f"echo $4 >>masks; cp $4 now; cp $4.speed {speed_file}; cp $4.duplex {duplex_file}\n",
    )


def test_a_speed_is_advertised_alone_and_the_old_modes_are_back_afterwards(bench: Bench) -> None:
    speed_bench(bench, pause="Symmetric Receive-only")
    (bench.bin / "0x6008").write_text((bench.bin / "0x8").read_text())
    (bench.bin / "0x6008.speed").write_text("100\n")
    (bench.bin / "0x6008.duplex").write_text("full\n")
    tuned = bench.apply("speed", 100)
    assert (tuned.outcome, tuned.found) == (SettingOutcome.APPLIED, "advertises 100baseT/Full")
    bench.undo()
    # Pause frames stay advertised as they were.
    assert (bench.bin / "masks").read_text().split() == ["0x6008", "0x602f"]


def test_half_duplex_is_advertised_alone_and_must_be_negotiated(bench: Bench) -> None:
    speed_bench(bench)
    tuned = bench.apply("speed", "10-half")
    assert (tuned.outcome, tuned.found) == (SettingOutcome.APPLIED, "advertises 10baseT/Half")
    bench.undo()
    assert (bench.bin / "masks").read_text().split() == ["0x1", "0x2f"]

    text = (bench.bin / "0x1").read_text()
    (bench.bin / "0x1").write_text(text.replace("Duplex: Half", "Duplex: Full"))
    tuned = bench.apply("speed", "10-half")
    assert tuned.outcome is SettingOutcome.UNSUPPORTED
    assert tuned.why == "driver or switch port did not follow: the link runs at 10 Mbit/s, full duplex"


def test_a_link_that_stays_at_its_speed_is_no_success(bench: Bench) -> None:
    speed_bench(bench, follows=False)
    tuned = bench.apply("speed", "100")
    assert tuned.outcome is SettingOutcome.UNSUPPORTED
    assert tuned.why == "driver or switch port did not follow: the link runs at 1000 Mbit/s, full duplex"
    bench.undo()


@pytest.mark.parametrize(
    ("value", "why"), [(10000, "eth0 does not support 10000baseT/Full"), (1000, "does not negotiate its speed")]
)
def test_a_speed_that_cannot_be_set_is_unsupported(bench: Bench, value: int, why: str) -> None:
    speed_bench(bench, negotiates="off" if value == 1000 else "on")
    tuned = bench.apply("speed", value)
    assert tuned.outcome is SettingOutcome.UNSUPPORTED
    assert why in tuned.why


@pytest.mark.parametrize("value", ["1000-half", 100.0, True, "fast", 42])
def test_other_speeds_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"a speed in Mbit/s: 10, 100, 1000, 2500, 5000, 10000, 10-half or 100-half"):
        find_setting("speed").parse(value)
