"""The command that repeats a test measures and judges as the original run."""

from __future__ import annotations

import pytest

from pytest_pinet.session.option_table import SETTINGS
from pytest_pinet.session.settings import settings

# A non-default value of each option that affects measuring or judging.
DECIDING = {
    "--pinet-min": "pi3b:onboard=rx=40 Mbit/s",
    "--pinet-tolerance": "5%",
    "--pinet-profile": "soak",
    "--pinet-error-rate": "2.5%",
    "--pinet-confirm": "connection",
    "--pinet-acquire-timeout": "90s",
    "--pinet-build": "new.yaml",
    "--pinet-against": "accepted",
    "--pinet-boots": "8",
    "--pinet-shards": "4",
    "--pinet-kselftest": "linux",
    "--pinet-instructions": "gem_rx=1%",
}
# All other options, with the reason why the command omits them.
OTHERS = {
    "--pinet-lab": "always there",
    "--pinet-board": "the test's id chooses",
    "--pinet-nic": "the test's id chooses",
    "--pinet-topology": "the test's id chooses",
    "--pinet-tuning": "the test's id chooses",
    "--pinet-require": "counts the results of the whole run",
    "--pinet-yes": "each run decides again whether a person is there",
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
    assert settings(config).repeated() == [f"{option}={value}"]


def test_a_switch_is_repeated_if_it_is_on(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings(pytester.parseconfig("--pinet-strict")).repeated() == ["--pinet-strict"]
    monkeypatch.setenv("PINET_STRICT", "no")
    assert settings(pytester.parseconfig()).repeated() == []


def test_each_of_several_values_is_repeated(pytester: pytest.Pytester) -> None:
    words = ["--pinet-min=90%", "--pinet-min=pi3b:*=80%"]
    assert settings(pytester.parseconfig(*words)).repeated() == words


def test_defaults_are_not_repeated(pytester: pytest.Pytester) -> None:
    assert settings(pytester.parseconfig()).repeated() == []


def test_no_option_is_forgotten() -> None:
    assert {one.option for one in SETTINGS} == {*DECIDING, *OTHERS, "--pinet-strict", "--pinet-exact"}
