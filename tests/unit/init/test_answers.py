"""Questions on a real pseudo-terminal, with what was found on two boards."""

from __future__ import annotations

import sys

import pexpect
import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.init.answers import Answers

PLAN = """
from pytest_pinet.init.answers import Answers
from pytest_pinet.init.desk import Wishes, plan
from tests.support.init_machines import direct, machine

boards = [machine("pi5"), machine("rock5b", "192.0.2.9")]
found = plan(boards, machine("pc", None), Wishes(), Answers(is_terminal=True), direct)
print([(node.name, node.tested.found.device, node.tested.speed_mbps) for node in found.nodes])
"""


def test_questions_have_numbers_defaults_and_a_second_chance() -> None:
    child = pexpect.spawn(sys.executable, ["-c", PLAN], timeout=60, encoding="utf-8", echo=False)
    child.expect_exact("pi5 has several NICs with a link. One of them is tested: its cable ends at the peer.")
    child.expect_exact("eth0 (driver macb, bus_info 1f00100000.ethernet, MAC 2c:cf:67:01:02:03), carries ssh")
    child.expect_exact("NIC of pi5 under test (eth0, enx00e04c010203) [eth0]: ")
    child.sendline("eth9")
    child.expect_exact("accepted: eth0, enx00e04c010203")
    child.expect_exact("[eth0]: ")
    child.sendline("2")
    child.expect_exact("enx00e04c010203 of pi5 can do 2.50 Gbit/s, but its link has 1.00 Gbit/s now.")
    child.expect_exact("[1.00 Gbit/s]: ")
    child.sendline("")
    child.expect_exact("[100.0 Mbit/s]: ")
    child.sendline("2")
    child.expect(pexpect.EOF)
    child.close()

    assert "[('pi5', 'enx00e04c010203', 1000), ('rock-5b', 'end0', None)]" in child.before
    assert child.exitstatus == 0


def test_defaults_are_taken_only_with_yes() -> None:
    with pytest.raises(ConfigError, match="a thing: give it with --thing, or take 'x' with --yes"):
        Answers(is_terminal=False).text("a thing", str, "--thing", "x")
    assert Answers(is_terminal=True, takes_defaults=True).text("a thing", str, "--thing", "x") == "x"
    with pytest.raises(ConfigError, match=r"a thing: give it with --thing$"):
        Answers(is_terminal=True, takes_defaults=True).text("a thing", str, "--thing")
    assert not Answers(is_terminal=False).agrees("Install?")


def test_names_from_a_board_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    Answers(is_terminal=True).say("eth0\x07\n::error::x")
    assert capsys.readouterr().err == "eth0\\x07\n: :error::x\n"
