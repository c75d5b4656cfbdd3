"""``pinet doctor`` on a real lab: healthy, and with one thing broken at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.doctor_command import CHECKS, copy_with, degraded, doctor, held_by_alice, pinet
from tests.support.gate_project import GateLab

pytestmark = pytest.mark.slow

# Stand-ins for boards have no device tree or firmware. This lab is not calibrated.
HEALTHY = {"board and NIC": "unknown", "clock and throttling": "unknown", "tolerance": "unknown"}


def test_a_healthy_lab_has_no_fault_and_is_restored(gate_lab: GateLab) -> None:
    on = gate_lab.nodes_on()
    answer = doctor(gate_lab)
    assert answer.wrong == {}
    assert list(answer.checks.items()) == [(check, HEALTHY.get(check, "ok")) for check in CHECKS]
    unknown = {f["message"] for f in answer.findings if f["status"] == "unknown"}
    # This is no fault of a board without device tree and firmware.
    assert "the board has no device tree, so its model is unknown" in unknown
    assert not any("no bus is known" in str(message) for message in unknown)
    assert gate_lab.nodes_on() == on
    assert gate_lab.holders() == []
    assert answer.code == (1 if answer.busy else 0)


def test_each_check_is_a_line_of_80_columns(gate_lab: GateLab) -> None:
    answer = pinet(gate_lab, "doctor", "--lab", str(gate_lab.file), "pi3b-1", "pi3b-2")
    heads = [line for line in answer.output.splitlines() if not line.startswith(" ")]
    assert [head[5:28].strip() for head in heads] == CHECKS
    assert "ok   power read-back        2 nodes" in heads
    assert all(len(line) <= 80 for line in answer.output.splitlines() if str(gate_lab.file) not in line)


def test_a_pulled_cable(gate_lab: GateLab) -> None:
    with degraded(gate_lab, "pi4b-1:usb", "--down"):
        answer = doctor(gate_lab, "pi4b-1", "pi3b-2")
    assert answer.code == 1
    assert answer.wrong == {
        ("link speed and duplex", "pi4b-1"): "eth1 has no link after 12 s -> "
        "check the cable between pi4b-1 eth1 and port p5 of switch sw1"
    }
    assert answer.of("pi4b-1")["cabling"] == "not checked"
    assert answer.of("pi3b-2")["cabling"] == "ok"


def test_exchanged_cables(gate_lab: GateLab, tmp_path: Path) -> None:
    ports = [
        ("onboard: {port: sw1/p4}", "onboard: {port: sw1/p6 }"),
        ("onboard: {port: sw1/p6}", "onboard: {port: sw1/p4}"),
    ]
    answer = doctor(gate_lab, "pi4b-1", "pi4b-2", file=copy_with(gate_lab, tmp_path, ports))
    assert answer.code == 1
    assert {key: message.partition(" (")[0] for key, message in answer.wrong.items()} == {
        ("cabling", "pi4b-1"): "wrong cable: eth0 is on port sw1/p4, the lab file has sw1/p6",
        ("cabling", "pi4b-2"): "wrong cable: eth0 is on port sw1/p6, the lab file has sw1/p4",
    }


def test_a_dead_power_switch(gate_lab: GateLab) -> None:
    with degraded(gate_lab, "pdu", "--dead"):
        answer = doctor(gate_lab, "pi3b-1", "pi3b-2")
    assert answer.code == 1
    assert list(answer.wrong) == [("power read-back", "pi3b-1"), ("power read-back", "pi3b-2")]
    first, second = answer.wrong.values()
    assert "the power switch of pi3b-1" in first
    assert "the lab's admin: check that the power switch is on" in first
    # doctor waits for this place only once.
    assert "did not answer, see pi3b-1" in second
    after = CHECKS[CHECKS.index("power read-back") + 1 :]
    assert {check: answer.of("pi3b-2")[check] for check in after} == dict.fromkeys(after, "not checked")


def test_a_place_that_another_user_holds_is_reported_and_not_touched(gate_lab: GateLab) -> None:
    with held_by_alice(gate_lab, "pi3b-1"):
        answer = doctor(gate_lab, "pi3b-1", "pi3b-2")
        assert gate_lab.holders() == ["pi3b-1"]
    assert answer.code == 1
    (message,) = answer.wrong.values()
    assert message.startswith("place pi3b-1 is held by otherhost/alice since ")
    assert "-> ask alice on otherhost, or: labgrid-client" in message
    assert answer.of("pi3b-1")["power read-back"] == "not checked"
    assert answer.of("pi3b-2")["cabling"] == "ok"


def test_a_node_that_hangs_is_reported_and_not_power_cycled(gate_lab: GateLab) -> None:
    gate_lab.switch_power(True, "pi3b-1")
    try:
        gate_lab.await_boot("pi3b-1")
        init = gate_lab.execute("pi3b-1", "cat", "/proc/1/stat").split()[21]
        with degraded(gate_lab, "pi3b-1", "--freeze"):
            answer = doctor(gate_lab, "pi3b-1", "pi3b-2")
        assert answer.code == 1
        assert list(answer.wrong) == [("serial login", "pi3b-1")]
        assert "pi3b-1 does not answer on its serial console" in answer.wrong["serial login", "pi3b-1"]
        assert answer.of("pi3b-1")["ssh"] == "not checked"
        assert answer.of("pi3b-2")["ssh"] == "ok"
        assert gate_lab.execute("pi3b-1", "cat", "/proc/1/stat").split()[21] == init
    finally:
        gate_lab.switch_power(False, "pi3b-1")


def test_a_wrong_lab_file_exits_with_code_4(gate_lab: GateLab, tmp_path: Path) -> None:
    file = copy_with(gate_lab, tmp_path, [("board: pi5\n", "board: pi55\n")])
    answer = doctor(gate_lab, file=file)
    assert answer.code == 4
    (message,) = answer.wrong.values()
    assert "unknown board 'pi55', did you mean 'pi5'?" in message
    assert [(f["check"], f["message"]) for f in answer.findings[1:]] == [("all other checks", "the lab file is wrong")]
    assert pinet(gate_lab, "doctor", "--lab", str(gate_lab.file), "pi3b").code == 4


def test_no_coordinator(gate_lab: GateLab, tmp_path: Path) -> None:
    file = copy_with(gate_lab, tmp_path, [('!template "$LG_COORDINATOR"', "127.0.0.1:1")])
    answer = doctor(gate_lab, file=file)
    assert answer.code == 1
    assert list(answer.wrong) == [("coordinator", None)]
    (left,) = [f for f in answer.findings if f["status"] == "not checked"]
    assert (left["check"], left["message"]) == ("all other checks", "no coordinator")


def test_a_trial_boot_of_each_board_is_proved_or_refused_in_one_sentence(gate_lab: GateLab) -> None:
    nodes = ("pi4b-1", "pi4b-2")
    gate_lab.switch_power(True, *nodes)
    gate_lab.await_boot(*nodes)
    try:
        gate_lab.execute("pi4b-2", "echo '# theirs' > /boot/firmware/tryboot.txt")
        answer = pinet(gate_lab, "doctor", "--tryboot", "--lab", str(gate_lab.file), *nodes)
        gate_lab.execute("pi4b-2", "rm /boot/firmware/tryboot.txt")
        assert answer.code == 1
        head, *sentences = answer.output.partition("trial boot ")[2].splitlines()
        assert head.strip() == "1 ok, 1 wrong"
        assert " ".join(" ".join(sentences).split()) == (
            "/boot/firmware of pi4b-2 has a tryboot.txt of another tool: delete it if that tool no longer needs it "
            "pi4b-1 booted a copy of its known-good files once by tryboot.txt, as vcmailbox requested"
        )
        assert "link speed" not in answer.output
        for node in nodes:
            assert "pinet.build" not in gate_lab.execute(node, "cat /proc/cmdline")
            files = gate_lab.execute(node, "ls /boot/firmware").split()
            assert files == ["cmdline.txt", "config.txt", "kernel8.img"]
    finally:
        gate_lab.switch_power(False, *nodes)
