"""The command that repeats a test measures and judges as the original run."""

from __future__ import annotations

import re

import pytest

from pytest_pinet.session.options import repeated_options

# A non-default value of each option that affects measuring or judging.
DECIDING = {
    "--pinet-min": "pi3b:onboard=rx=40 Mbit/s",
    "--pinet-tolerance": "5%",
    "--pinet-profile": "soak",
    "--pinet-error-rate": "2.5%",
    "--pinet-confirm": "connection",
    "--pinet-acquire-timeout": "90s",
    "--pinet-build": "new.yaml",
    "--pinet-baseline": "accepted",
    "--pinet-boots": "8",
}
# All other options, with the reason why the command omits them.
OTHERS = {
    "--pinet-lab": "always there",
    "--pinet-board": "the test's id chooses",
    "--pinet-nic": "the test's id chooses",
    "--pinet-topology": "the test's id chooses",
    "--pinet-tuning": "the test's id chooses",
    "--pinet-require": "counts the results of the whole run",
    "--pinet-dry-run": "measures nothing, so there is nothing to repeat",
    "--pinet-json": "where results are written",
    "--pinet-history": "where results are written",
    "--pinet-run-dir": "where results are written",
}


@pytest.mark.parametrize(("option", "value"), DECIDING.items())
def test_an_option_that_changes_a_verdict_or_a_run_is_repeated(
    pytester: pytest.Pytester, option: str, value: str
) -> None:
    config = pytester.parseconfig(f"{option}={value}")
    assert repeated_options(config.getoption) == [f"{option}={value}"]


def test_each_of_several_values_is_repeated(pytester: pytest.Pytester) -> None:
    words = ["--pinet-min=90%", "--pinet-min=pi3b:*=80%"]
    assert repeated_options(pytester.parseconfig(*words).getoption) == words


def test_defaults_are_not_repeated(pytester: pytest.Pytester) -> None:
    assert repeated_options(pytester.parseconfig().getoption) == []


def test_repeated_options_have_the_same_values(pytester: pytest.Pytester) -> None:
    first = pytester.parseconfig("--pinet-error-rate=0.013", "--pinet-acquire-timeout=1.5h")
    again = pytester.parseconfig(*repeated_options(first.getoption))
    for option in DECIDING:
        value = first.getoption(option)
        assert again.getoption(option) == (pytest.approx(value) if isinstance(value, float) else value)


def test_no_option_is_forgotten(pytester: pytest.Pytester) -> None:
    there = set(re.findall(r"^ +(--pinet-[a-z-]+)", pytester.runpytest_subprocess("--help").stdout.str(), re.M))
    assert there == {*DECIDING, *OTHERS}
