"""The axis ``tuning=``: its syntax, its form in ids, the selection, and the order of tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_pinet.config import labfile
from pytest_pinet.errors import ConfigError, InvalidMeasurement, Where
from pytest_pinet.matrix.expansion import (
    CombinationCase,
    Request,
    combinations,
    fewest_boots,
    marker_names,
    selected,
    split_tuning,
)
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.tuning import SettingOutcome, Tuned, Tuning
from pytest_pinet.report.sentences import ineffective, tuning_notes
from pytest_pinet.session.arguments import check_tunings, read_marker
from pytest_pinet.session.session import require_tunings
from pytest_pinet.tuning.registry import (
    ORDER,
    RUNNING_ORDER,
    boot_part,
    in_order,
    parse_key,
    read_tuning,
    read_tunings,
    running_part,
    together,
)
from tests.support.report_records import result


@pytest.fixture(scope="module")
def lab() -> Lab:
    return labfile.load(Path(__file__).parents[3] / "lab" / "virtual.yaml")


def ask(tuning: object) -> Request:
    return read_marker("test_it", [pytest.mark.pinet(board="pi4b", nic="onboard", tuning=tuning).mark])


def found(lab: Lab, request: Request) -> list[Combination]:
    return [one for one in combinations(lab, request) if isinstance(one, Combination)]


def test_a_mapping_is_one_tuning_and_a_list_several(lab: Lab) -> None:
    assert [one.id for one in found(lab, ask({"mtu": 9000}))] == ["pi4b:onboard/pair/mtu=9000"]
    assert [one.id for one in found(lab, ask([{}, {"mtu": 9000}, {"rps": "all", "mtu": 9000}]))] == [
        "pi4b:onboard/pair",
        "pi4b:onboard/pair/mtu=9000",
        "pi4b:onboard/pair/rps=all+mtu=9000",
    ]


def test_without_one_everything_is_as_it_was(lab: Lab) -> None:
    (one,) = found(lab, read_marker("test_it", [pytest.mark.pinet(board="pi4b", nic="onboard").mark]))
    assert (one.id, str(one.tuning)) == ("pi4b:onboard/pair", "none")


def test_the_id_does_not_depend_on_how_it_was_written() -> None:
    assert read_tuning({"mtu": "9000", "rps": "ALL"}) == read_tuning({"rps": "all", "mtu": 9000})
    assert read_tuning({"tso": False}) == read_tuning({"tso": "off"})
    assert read_tuning({"tcp_buffers": 4 << 20}).key == read_tuning({"tcp_buffers": "4096K"}).key == "tcp_buffers=4M"
    assert read_tuning({"scaling_max_freq": "1.5 GHz"}).key == "scaling_max_freq=1500"
    assert read_tunings([{"mtu": 9000}, {"mtu": "9000"}]) == (read_tuning({"mtu": 9000}),)


@pytest.mark.parametrize("key", ["rps=all+mtu=9000", "kernel=pci=pcie_bus_perf", "arm_freq=2000+irq=1,2", "none", ""])
def test_a_key_is_read_again(key: str) -> None:
    assert parse_key(key).key == key.replace("none", "")


def test_nothing_in_an_id_needs_quoting() -> None:
    everything = read_tuning({"kernel": ["pci=pcie_bus_perf", "isolcpus=2,3"], "dtparam": "eee=off", "irq": "1-3"})
    assert everything.key == "dtparam=eee=off+kernel=pci=pcie_bus_perf,isolcpus=2,3+irq=1-3"
    assert re.fullmatch(r"[A-Za-z0-9._:@=,+-]+", everything.key)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"rsp": "all"}, "unknown tuning 'rsp', did you mean 'rps'?"),
        ({"cmdline": "x"}, "unknown tuning 'cmdline', did you mean 'kernel'?"),
        ({"mtu": "jumbo"}, "mtu: 'jumbo' is not a number of bytes such as 1500 or 9000"),
        ({"mtu": 10}, "mtu: 10 is not a number of bytes such as 1500 or 9000: from 68 to 65535"),
        ({"mtu": True}, "mtu: 'true' is not a number of bytes such as 1500 or 9000"),
        ({"rps": "3-1"}, "rps: '3-1' is not 'all', 'off', CPUs such as '0-3' or '1,3', or a mask such as '0xf'"),
        ({"tso": "maybe"}, "tso: 'maybe' is not 'on' or 'off'"),
        ({"kernel": "root=/dev/x"}, "kernel: 'root=/dev/x' is not a kernel parameter such as 'pci=pcie_bus_perf'"),
        ({"pcie_gen": 4}, "pcie_gen: 4 is not 1, 2 or 3"),
        ({"arm_freq": 20000}, "arm_freq: 20000 is not the processor's clock in MHz such as 2000: from 100 to 5000"),
        ({"governor": "a b"}, "governor: 'a b' is not the name of a governor such as 'performance' or 'ondemand'"),
        ({"scaling_max_freq": "fast"}, "scaling_max_freq: 'fast' is not a frequency such as 1500 or '1.5GHz'"),
        ({"flow_control": "both"}, "flow_control: 'both' is not 'on', 'off', 'rx' or 'tx'"),
        ("mtu=9000", "'mtu=9000' is not a tuning; expected a mapping such as {'rps': 'all', 'mtu': 9000}, or a list"),
        ([], "[] is not a tuning"),
        ([{"mtu": 9000}, 3], "3 is not a tuning"),
    ],
)
def test_the_error_of_a_mistake_names_the_accepted_values(given: object, told: str) -> None:
    marker = pytest.mark.pinet(tuning=given).mark
    with pytest.raises(ConfigError) as error:
        read_marker("test_x.py::test_it", [marker], Where("test_x.py", 12))
    assert str(error.value).startswith(f"test_x.py:12: test_x.py::test_it: tuning: {told}")


def test_every_setting_says_what_it_takes() -> None:
    for name in ORDER:
        with pytest.raises(ValueError, match=f"^{name}: "):
            read_tuning({name: ["nonsense / of any kind"]})


def test_a_part_of_a_test_is_tuned_beyond_its_marker() -> None:
    marked, here = read_tuning({"mtu": 9000, "rps": "all"}), read_tuning({"mtu": 1500, "arm_freq": 2000})
    assert together(marked, here).key == "arm_freq=2000+rps=all+mtu=1500"
    assert together(marked, Tuning()) == marked


def test_settings_that_need_a_boot_are_separated() -> None:
    tuning = read_tuning({"mtu": 9000, "arm_freq": 2000})
    assert boot_part(tuning).key == "arm_freq=2000"
    assert running_part(tuning).key == "mtu=9000"


def test_disruptive_settings_come_first() -> None:
    names = [setting.name for setting in in_order(["rps", "qdisc", "mtu", "ring_rx"])]
    assert names == ["mtu", "ring_rx", "rps", "qdisc"]
    assert len(in_order(RUNNING_ORDER)) == len(RUNNING_ORDER)


def test_automatic_markers_name_each_setting(lab: Lab) -> None:
    request = ask([{}, {"rps": "all", "mtu": 9000}])
    plain, tuned = found(lab, request)
    assert list(marker_names(plain, request)) == ["board_pi4b", "nic_onboard", "topology_pair", "tuning_none"]
    assert list(marker_names(tuned, request))[3:] == ["tuning_rps_all", "tuning_mtu_9000"]
    assert list(marker_names(plain, ask({})))[3:] == []


@pytest.mark.parametrize(
    ("glob", "ids"),
    [
        ("none", ["pi4b:onboard/pair"]),
        ("mtu", ["pi4b:onboard/pair/mtu=9000", "pi4b:onboard/pair/rps=all+mtu=9000"]),
        ("rps=*", ["pi4b:onboard/pair/rps=all+mtu=9000"]),
        ("mtu=9000", ["pi4b:onboard/pair/mtu=9000", "pi4b:onboard/pair/rps=all+mtu=9000"]),
        ("rps=all+mtu=9000", ["pi4b:onboard/pair/rps=all+mtu=9000"]),
    ],
)
def test_a_tuning_is_chosen_by_its_parts(lab: Lab, glob: str, ids: list[str]) -> None:
    every = found(lab, ask([{}, {"mtu": 9000}, {"rps": "all", "mtu": 9000}]))
    axes = {"board": [], "nic": [], "topology": [], "tuning": [glob]}
    assert [one.id for one in every if selected(one, axes)] == ids


def test_a_choice_that_names_no_setting_is_refused() -> None:
    check_tunings(["none", "rps=*", "r*", "rps=all+mtu=9000"])
    with pytest.raises(ConfigError, match="--pinet-tuning: unknown tuning 'rsp', did you mean 'rps'"):
        check_tunings(["rsp=all"])


def test_an_id_is_taken_apart() -> None:
    assert split_tuning("pi4b:onboard/pair/mtu=9000") == ("pi4b:onboard/pair", read_tuning({"mtu": 9000}))
    assert split_tuning("pi4b:onboard/pair") == ("pi4b:onboard/pair", Tuning())


def test_tests_that_boot_alike_run_in_a_row_behind_all_others(lab: Lab) -> None:
    request = ask([{}, {"arm_freq": 2000}, {"mtu": 9000}, {"arm_freq": 2000, "mtu": 9000}, {"arm_freq": 1500}])
    cases = [CombinationCase(one, request) for one in found(lab, request)]
    tests = [(name, case) for name in ("a", "b") for case in cases]
    ran = [(name, case.combination.tuning.key) for name, case in fewest_boots(tests, lambda test: test[1])]
    assert ran == [
        ("a", ""),
        ("a", "mtu=9000"),
        ("b", ""),
        ("b", "mtu=9000"),
        ("a", "arm_freq=2000"),
        ("a", "arm_freq=2000+mtu=9000"),
        ("b", "arm_freq=2000"),
        ("b", "arm_freq=2000+mtu=9000"),
        ("a", "arm_freq=1500"),
        ("b", "arm_freq=1500"),
    ]


GONE = Tuned("pi4b-1:usb", "xps", "all", "", "", SettingOutcome.UNSUPPORTED, "eth1 has one transmit queue")
LOW = Tuned("pi4b-1:usb", "rps", "0xff", "0", "f", SettingOutcome.CLAMPED)
GOOD = Tuned("pi4b-1:usb", "mtu", "9000", "1500", "9000", SettingOutcome.APPLIED)


def test_a_setting_without_effect_is_not_in_the_id() -> None:
    assert tuning_notes([GONE, LOW, GOOD, GONE]) == [
        "tuning xps=all of pi4b-1:usb: unsupported: eth1 has one transmit queue (measured without this setting)",
        "tuning rps=0xff of pi4b-1:usb: clamped, the value is f (measured without this setting)",
    ]
    records = (GONE, GOOD)
    assert [record.outcome for record in records] == ["unsupported", "applied"]
    untuned = result("pi4b:usb/pair", {})
    assert ineffective([untuned.replace(tunings=records), untuned.replace(tunings=records), untuned]) == [
        "tuning xps=all of pi4b-1:usb: unsupported: eth1 has one transmit queue"
    ]


def test_a_test_that_cannot_do_without() -> None:
    require_tunings([GOOD])
    with pytest.raises(pytest.skip.Exception, match="tuning xps=all of pi4b-1:usb: unsupported"):
        require_tunings([GOOD, GONE])
    with pytest.raises(InvalidMeasurement, match="clamped, the value is f, and tuning_required is set: not measured"):
        require_tunings([LOW])


def test_every_setting_stands_in_the_documentation() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "tunings.md").read_text()
    running, _, booting = page.partition("## Settings that take a boot")
    rows = [line.split("|")[1] for part in (booting, running) for line in part.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    # In the order of ids.
    assert [name for name in named if name not in list(SettingOutcome)] == list(ORDER)
