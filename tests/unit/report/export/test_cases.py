import re

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.report.export.cases import cases_of, plain_name, settings_of
from tests.support.export_runs import ALTERNATED, EXACT, PLAIN, RUNS

# The path of KCIDB's format, version 5.3.
PATH = re.compile(r"([\w-]+(\.[\w-]+)*)?", re.ASCII)


@pytest.mark.parametrize("kind", RUNS)
def test_names_are_unique_and_plain(kind: str) -> None:
    names = [case.name for case in cases_of(RUNS[kind])]
    assert len({*names}) == len(names)
    assert all(PATH.fullmatch(name) for name in names)


def test_names_of_ids() -> None:
    assert plain_name("pi4b:onboard/incast:2/rps=all+mtu=9000/tcp-P1-tx") == (
        "pi4b.onboard.incast-2.rps-all-mtu-9000.tcp-P1-tx"
    )
    assert [case.name for case in cases_of(EXACT)] == [
        "exact.macb.pair.qemu-7-2-22.frame-60-tx",
        "exact.macb.pair.qemu-7-2-22.frame-60-rx",
    ]


def test_directions_at_once_are_two_metrics_and_a_repetition_is_numbered() -> None:
    labels = [case.label for case in cases_of(PLAIN) if case.group == "pi4b.onboard.pair"]
    assert labels == ["tcp-P1-bidir-tx", "tcp-P1-bidir-rx", "tcp-P1-tx", "tcp-P1-rx", "tcp-P1-tx-2"]


def test_an_error_has_the_name_of_its_combination() -> None:
    (case,) = [case for case in cases_of(PLAIN) if case.group == "cm4.onboard.pair"]
    assert (case.name, case.verdict) == ("cm4.onboard.pair.measurement", "error")
    assert case.text.startswith("no carrier on eth0 of cm4-1")


def test_a_gate_of_a_build_gives_its_outcomes() -> None:
    found = {case.name: (str(case.verdict), case.text) for case in cases_of(ALTERNATED)}
    assert found["pi4b.onboard.pair.tcp-P1-tx"] == ("fail", "slower, certain after 7 turns: B is -2.10 %")
    assert found["pi5.onboard.pair.tcp-P1-rx"][0] == "improved"
    assert found["cm4.onboard.pair.tcp-P1-tx"][0] == "inconclusive"
    assert found["pi3b.onboard.pair.measurement"] == ("fail", "panic: panic on pi4b-1 with new: Kernel panic")


def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="--set: unknown setting of kcidb 'git_comit', did you mean 'git_commit'"):
        settings_of("kcidb", {"git_comit": "x"}, "git_commit", "origin")
