"""The findings of checks as text and JSON, and the order of the checks."""

from __future__ import annotations

from pathlib import Path

from pytest_pinet.doctor.bench import Finding, Status, lines
from pytest_pinet.doctor.examine import examine
from pytest_pinet.errors import CapabilityError, ConfigError, PowerError, Where

NODES = ("pi3b-1", "pi3b-2", "pi4b-1")


def findings(status: Status, message: str = "") -> list[Finding]:
    return [Finding(status, node, message) for node in NODES]


def test_a_check_that_passes_is_one_line() -> None:
    assert lines("power read-back", findings(Status.OK)) == ["ok   power read-back        3 nodes"]
    assert lines("iperf3 versions", findings(Status.OK, "3.12")) == ["ok   iperf3 versions        3 nodes: 3.12"]
    found = [Finding(Status.OK, message="127.0.0.1:20408")]
    assert lines("coordinator", found) == ["ok   coordinator            127.0.0.1:20408"]


def test_a_fault_is_printed_below_with_the_action() -> None:
    found = [
        *findings(Status.OK)[:2],
        Finding(
            Status.WRONG,
            "pi4b-1",
            "the power switch of pi4b-1 said yes to 'on' but still reports the opposite",
            "the lab's admin: check outlet number and wiring of the power switch",
        ),
    ]
    assert lines("power read-back", found) == [
        "BAD  power read-back        2 ok, 1 wrong",
        "       the power switch of pi4b-1 said yes to 'on' but still reports the",
        "         opposite",
        "         -> the lab's admin: check outlet number and wiring of the power switch",
    ]


def test_nodes_with_the_same_message_share_a_line() -> None:
    found = findings(Status.UNKNOWN, "no cpufreq")
    assert lines("clock and throttling", found) == ["?    clock and throttling   3 unknown", "       all 3: no cpufreq"]
    found = [*found[:2], Finding(Status.OK, "pi4b-1")]
    assert lines("clock and throttling", found)[1:] == ["       pi3b-1, pi3b-2: no cpufreq"]


def test_a_sentence_of_each_board_is_printed_although_nothing_is_wrong() -> None:
    found = [Finding(Status.OK, node, f"{node} booted once by tryboot.txt", shown=True) for node in NODES[:2]]
    found.append(Finding(Status.WRONG, NODES[2], f"{NODES[2]} boots by an A/B scheme"))
    assert lines("trial boot", found) == [
        "BAD  trial boot             2 ok, 1 wrong",
        "       pi4b-1 boots by an A/B scheme",
        "       pi3b-1 booted once by tryboot.txt",
        "       pi3b-2 booted once by tryboot.txt",
    ]
    assert lines("trial boot", found[:1]) == [
        "ok   trial boot             1 node",
        "       pi3b-1 booted once by tryboot.txt",
    ]


def test_a_check_that_did_not_run_has_its_reason() -> None:
    blocked = findings(Status.NOT_CHECKED, "no serial login")
    assert lines("ssh", blocked) == ["-    ssh                    3 not checked: no serial login"]
    mixed = [Finding(Status.OK, "pi3b-1"), Finding(Status.NOT_CHECKED, "pi3b-2", "no power"), blocked[2]]
    assert lines("ssh", mixed) == [
        "ok   ssh                    1 ok, 2 not checked",
        "       not checked: pi3b-2 (no power), pi4b-1 (no serial login)",
    ]
    whole = [Finding(Status.NOT_CHECKED, message="no coordinator")]
    assert lines("ssh", whole) == ["-    ssh                    not checked: no coordinator"]


def test_no_line_is_longer_than_80_columns() -> None:
    long = "word " * 60
    for status in Status:
        for line in lines("link speed and duplex", [Finding(status, "pi3b-1", long, long)]):
            assert len(line) <= 80


def test_errors_become_findings() -> None:
    wrong = Finding.of(PowerError("no answer", "the lab's admin: look"), "pi4b-1")
    assert wrong.as_json("power read-back") == {
        "check": "power read-back",
        "status": "wrong",
        "node": "pi4b-1",
        "message": "no answer",
        "act": "the lab's admin: look",
    }
    assert not wrong.mistake
    assert Finding.of(CapabilityError("switch s cannot")).status is Status.UNKNOWN
    mistake = Finding.of(ConfigError("unknown board", Where("lab.yaml", 7)))
    assert mistake.mistake
    assert mistake.message == "lab.yaml:7: unknown board"


def test_without_a_lab_file_all_other_checks_are_one_line(tmp_path: Path) -> None:
    (first, wrong), *others = examine(str(tmp_path / "none.yaml"), (), print)
    assert first == "lab file"
    assert "none.yaml: this file does not exist" in wrong[0].message
    text = [line for check, findings in others for line in lines(check, findings)]
    assert text == ["-    all other checks       not checked: the lab file is wrong"]
