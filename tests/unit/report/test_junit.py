from xml.etree import ElementTree

import pytest

from pytest_pinet.model.record.result import ResultRecord
from pytest_pinet.model.tuning import SettingOutcome, Tuned
from pytest_pinet.report.junit import junit_properties
from tests.support.report_records import NIGHT, direction, result
from tests.support.traffic_results import ALL


def test_one_measurement_is_flat() -> None:
    slow = result("pi4b:onboard/pair", {"tx": direction(700.26e6, 885e6, "fail")})

    assert junit_properties([slow]) == [
        ("pinet.verdict", "fail"),
        ("pinet.combination", "pi4b:onboard/pair"),
        ("pinet.dut", "pi4b-1:onboard"),
        ("pinet.peer", "pi4b-2:onboard"),
        ("pinet.build.uname", "6.12.25-v8+ aarch64"),
        ("pinet.build.driver", "bcmgenet"),
        ("pinet.link", "1000 Mbit/s full, MTU 1500"),
        ("pinet.tx.verdict", "fail"),
        ("pinet.tx.goodput_bps", 700260000),
        ("pinet.tx.limit_bps", 885000000),
        ("pinet.tx.rule", "885.0 Mbit/s (lab/virtual.yaml:88)"),
        ("pinet.tx.oracle_bps", 941482445),
        ("pinet.tx.attempts", 1),
        ("pinet.tx.retransmits", 12),
        ("pinet.tx.cpu_percent_dut", 61.2),
        ("pinet.tx.cpu_percent_peer", 12.0),
    ]


def test_what_was_not_measured_is_absent_and_not_zero() -> None:
    keys = dict(junit_properties([result("a:b/pair", {"rx": direction(1e6, retransmits=None)})]))

    assert "pinet.rx.retransmits" not in keys
    assert "pinet.rx.limit_bps" not in keys


def test_the_test_has_the_worst_verdict_of_its_measurements() -> None:
    good = result("a:b/pair", {"tx": direction(1e6)})
    bad = result("a:b/pair", {"rx": direction(1e6, 2e6, "fail")})

    keys = dict(junit_properties([good, bad]))

    assert keys["pinet.verdict"] == "fail"
    assert keys["pinet.tx.verdict"] == "pass"
    assert keys["pinet.rx.verdict"] == "fail"


def test_several_traffics_and_repetitions_have_keys_of_their_own() -> None:
    one, two = (result("a:b/pair", {"tx": direction(1e6)}, traffic=traffic) for traffic in ("tcp-P1", "tcp-P10"))

    keys = [key for key, _ in junit_properties([one, two, two]) if key.endswith("goodput_bps")]

    assert keys == [
        "pinet.tcp-P1.tx.goodput_bps",
        "pinet.tcp-P10.tx.goodput_bps",
        "pinet.tcp-P10.tx#2.goodput_bps",
    ]


def test_an_error_without_traffic_leaves_the_keys_of_the_only_traffic_short() -> None:
    measured = result("a:b/pair", {"tx": direction(1e6)}, traffic="tcp-P1")
    error = result("a:b/pair", {}, traffic="")

    assert "pinet.tx.goodput_bps" in dict(junit_properties([measured, error]))


def test_nothing_measured_nothing_written() -> None:
    assert junit_properties([]) == []


def test_a_tuning_and_what_did_not_come_of_it() -> None:
    tuned = result("pi4b:usb/pair/xps=all+mtu=9000", {"tx": direction(9e8)})
    gone = Tuned("pi4b-1:usb", "xps", "all", "", "", SettingOutcome.UNSUPPORTED, "one queue")
    held = Tuned("pi4b-1:usb", "mtu", "9000", "1500", "9000", SettingOutcome.APPLIED)
    properties = dict(junit_properties([tuned.replace(tunings=(gone, held))]))
    assert properties["pinet.tuning"] == "xps=all+mtu=9000"
    assert properties["pinet.tuning.xps"] == "unsupported"
    assert "pinet.tuning.mtu" not in properties


@pytest.mark.parametrize("one", [*NIGHT, *ALL.values()])
def test_every_value_is_flat_and_no_key_comes_twice(one: ResultRecord) -> None:
    """JUnit XML has only texts; a mapping would appear as Python code."""
    found = junit_properties([one])
    assert all(isinstance(value, str | int | float) for _, value in found)
    assert len(dict(found)) == len(found)


def test_pytest_writes_them_as_numbers_that_can_be_read(pytester: pytest.Pytester) -> None:
    properties = junit_properties([NIGHT[0], ALL["ping"]])
    found = [(key, value) for key, value in properties if isinstance(value, int | float)]
    pytester.makeconftest(f"def pytest_runtest_setup(item):\n    item.user_properties += {found!r}\n")
    pytester.makepyfile("def test_one(): pass")
    done = pytester.runpytest_inprocess("-p", "no:labgrid", "--junitxml=j.xml")
    done.assert_outcomes(passed=1)
    written = ElementTree.parse(pytester.path / "j.xml").getroot().iter("property")
    assert {one.get("name"): float(one.get("value", "")) for one in written} == {key: float(v) for key, v in found}


def test_properties_are_plain_values_because_workers_send_them() -> None:
    assert {type(value) for _, value in junit_properties(NIGHT)} <= {str, int, float}
