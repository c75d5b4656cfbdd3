"""The arguments of markers and gate calls, and the options that depend on the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_pinet.config import labfile
from pytest_pinet.errors import ConfigError
from pytest_pinet.judge.profile import DEFAULT_PROFILE
from pytest_pinet.matrix.expansion import Request
from pytest_pinet.model.limits import Limit, Metric, Origin, Scope, parse_arguments
from pytest_pinet.model.quantities import Bitrate, CpuCost, Duration, Share, Tolerance
from pytest_pinet.model.traffic import Direction
from pytest_pinet.session.arguments import command_line_limits, parse_silence, read_marker
from pytest_pinet.session.option_table import SETTINGS, profile_name
from pytest_pinet.session.settings import settings

LAB = labfile.load(Path(__file__).parents[3] / "lab" / "virtual.yaml")


def marked(**arguments: object) -> Request:
    return read_marker("test_it", [pytest.mark.pinet(**arguments).mark])


def test_a_silence_is_at_most_as_long_as_it_is_measured() -> None:
    assert parse_silence(None, 95.0) == (95.0, 0.02)
    assert parse_silence("60 s in 90%", 95.0) == pytest.approx((60.0, 0.1))
    with pytest.raises(ConfigError, match=r"silence='60 s in 90%': expected .*at most 46 s with this down\) and its"):
        parse_silence("60 s in 90%", 46.0)


def test_a_marker_can_limit_every_metric() -> None:
    request = marked(
        min="94%",
        sum="1 Gbit/s",
        share="90%",
        fairness=0.95,
        tolerance="3%",
        retransmits="0.1%",
        loss="0.5%",
        latency="5 ms",
        cpu="140%",
        marginal="2%",
        profile="soak",
    )
    assert {limit.metric: limit.bound for limit in request.limits} == {
        Metric.GOODPUT: Share(0.94),
        Metric.SUM: Bitrate(1e9),
        Metric.SHARE: Share(0.9),
        Metric.FAIRNESS: Share(0.95),
        Metric.TOLERANCE: Tolerance(Share(0.03)),
        Metric.RETRANSMITS: Share(0.001),
        Metric.LOSS: Share(0.005),
        Metric.LATENCY: Duration(0.005),
        Metric.CPU: CpuCost(140.0),
    }
    assert {limit.marginal for limit in request.limits} == {Share(0.02)}
    assert request.profile == "soak"
    assert next(limit.source for limit in request.limits if limit.metric is Metric.LOSS) == "loss='0.5%' of the marker"


def test_a_tolerance_with_two_parts_is_not_read_as_a_mapping_of_directions() -> None:
    both = {"relative": "3%", "absolute": "20 Mbit/s"}
    (limit,) = marked(tolerance=both).limits
    assert (limit.bound, limit.scope.direction) == (Tolerance(Share(0.03), Bitrate(20e6)), None)
    tx, rx = marked(tolerance={"tx": both, "rx": "5%"}).limits
    assert (tx.bound, tx.scope.direction) == (Tolerance(Share(0.03), Bitrate(20e6)), Direction.TX)
    assert (rx.bound, rx.scope.direction) == (Tolerance(Share(0.05)), Direction.RX)


def test_a_marker_without_other_limits() -> None:
    request = marked(min={"tx": "94%", "bidir": "90%"})
    assert [(limit.scope.direction, limit.scope.both_ways, limit.marginal) for limit in request.limits] == [
        (Direction.TX, None, None),
        (None, True, None),
    ]
    assert request.profile is None


TOLERANCE_FORM = "a tolerance such as '3%', '3% and 20 Mbit/s' or {relative: 3%, absolute: 20 Mbit/s}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            {"tolerance": {"relativ": "3%"}},
            "tolerance: unknown part or direction 'relativ', did you mean 'relative'? "
            "(accepted: absolute, bidir, bidir-rx, bidir-tx, relative, rx, tx)",
        ),
        (
            {"tolerance": {"tx": {"relativ": "3%"}}},
            "tolerance: 'relativ' is no part of a tolerance; expected relative and absolute",
        ),
        (
            {"tolerance": {"relative": "3%", "tx": "3%"}},
            "tolerance: 'tx' is no part of a tolerance; expected relative and absolute",
        ),
        ({"tolerance": {}}, f"tolerance: a tolerance needs its relative part; expected {TOLERANCE_FORM}"),
        ({"min": {"up": "94%"}}, "min: unknown direction 'up'; accepted: bidir, bidir-rx, bidir-tx, rx, tx"),
        ({"min": {}}, "min: expected a rate such as '2.3 Gbit/s' or a share such as '94%', got a mapping"),
        ({"min": {"tx": None}}, "min: expected a rate such as '2.3 Gbit/s' or a share such as '94%', got nothing"),
        (
            {"marginal": "2%"},
            "marginal: a marginal band needs a limit; add one of min, sum, share, fairness, tolerance, "
            "cost_tolerance, retransmits, loss, latency, cpu, max_drops, transactions, connections, packets, p50, p90, "
            "p99, late, idle_loss, first_answer, first_second",
        ),
        ({"profile": "soke"}, "unknown profile 'soke', did you mean 'soak'? (accepted: fast, full, soak, standard)"),
        ({"profile": 3}, "unknown profile '3'; accepted: fast, full, soak, standard"),
    ],
)
def test_a_mistake_in_a_marker_is_one_sentence(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        marked(**arguments)
    assert str(caught.value) == f"test_it: {says}"


def test_an_unknown_argument_is_named_with_the_signature() -> None:
    with pytest.raises(ConfigError) as caught:
        marked(tolerence="3%")
    assert str(caught.value).startswith("test_it: unknown argument of the pinet marker 'tolerence', did you mean")
    assert len(str(caught.value).splitlines()) == 1


def test_a_gate_call_has_the_same_arguments() -> None:
    given = {"min": "94%", "cpu": None, "loss": {"rx": "1%"}, "marginal": "5%", "streams": 4}
    found = parse_arguments(given, Origin.CALL)
    assert [(limit.metric, limit.origin, limit.source, limit.marginal) for limit in found] == [
        (Metric.GOODPUT, Origin.CALL, "min='94%' of the call", Share(0.05)),
        (Metric.LOSS, Origin.CALL, "loss={'rx': '1%'} of the call", Share(0.05)),
    ]


def option(metric: Metric, text: str) -> Limit:
    (limit,) = command_line_limits([text], LAB, metric)
    return limit


def test_command_line_options_have_the_same_form() -> None:
    tolerance = option(Metric.TOLERANCE, "pi4b:genet/pair=tx=3% and 20 Mbit/s")
    assert tolerance.bound == Tolerance(Share(0.03), Bitrate(20e6))
    assert tolerance.metric is Metric.TOLERANCE
    assert tolerance.scope == Scope("pi4b", "onboard", "pair", Direction.TX, False)
    assert tolerance.source == "--pinet-tolerance pi4b:genet/pair=tx=3% and 20 Mbit/s"
    received = option(Metric.GOODPUT, "rx=2 Mbit/s")
    assert (received.bound, received.scope) == (Bitrate.mbps(2), Scope(direction=Direction.RX, both_ways=False))
    assert option(Metric.GOODPUT, "90%").source == "--pinet-min 90%"


@pytest.mark.parametrize(
    ("metric", "text", "says"),
    [
        (Metric.TOLERANCE, "a=b=c=4%", "--pinet-tolerance 'a=b=c=4%': expected '3%', '3% and 20 Mbit/s' or 'pi4b:*"),
        (Metric.GOODPUT, "a=b=c=9%", "--pinet-min 'a=b=c=9%': expected '90%', '2.3 Gbit/s' or 'pi4b:"),
        (Metric.GOODPUT, "pi4b=up=2%", "--pinet-min 'pi4b=up=2%': unknown direction 'up'; accepted: "),
        (Metric.TOLERANCE, "pi4v=3%", "--pinet-tolerance 'pi4v=3%': unknown board of this lab 'pi4v', did you mean"),
    ],
)
def test_a_mistake_in_an_option_is_one_sentence(metric: Metric, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        option(metric, text)
    assert str(caught.value).startswith(says)


def test_quick_is_another_name_of_the_default_profile() -> None:
    assert profile_name("quick") == DEFAULT_PROFILE


# A non-default value of each option that affects measuring or judging.
DECIDING = {
    "--pinet-min": "pi3b:onboard=rx=40 Mbit/s",
    "--pinet-tolerance": "5%",
    "--pinet-cost-tolerance": "20%",
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
    switches = {"--pinet-strict", "--pinet-exact", "--pinet-layout-counts"}
    assert {one.option for one in SETTINGS} == {*DECIDING, *OTHERS, *switches}
