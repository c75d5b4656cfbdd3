"""A bad limit gets the same sentence in a lab file, a marker, a call and an option; only the place differs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_pinet.config import labfile
from pytest_pinet.errors import ConfigError
from pytest_pinet.model.exact import parse_instructions, parse_written_instructions
from pytest_pinet.model.limits import Metric
from pytest_pinet.session.arguments import command_line_limits, read_marker

MINIMUM = "a rate such as '2.3 Gbit/s' or a share such as '94%'"
RATE = "a number with a unit such as '2.3 Gbit/s', '940 Mbit/s' or '2.3G'"
TOLERANCE = "a tolerance such as '3%', '3% and 20 Mbit/s' or {relative: 3%, absolute: 20 Mbit/s}"
FRACTION = "a share such as '95%' or a number from 0 to 1"
PART = "a share such as '0.1%'"
DURATION = "a duration such as '500 ms', '10 s' or '2 min'"
CPU = "a part of a core for each Gbit/s such as '40%'"
BAND = "a share such as '2%', more than 0% and less than 100%"

# The argument, its value, and what is wrong with the value.
MISTAKES: list[tuple[str, object, str]] = [
    ("min", 900, f"'900' has no unit; expected {MINIMUM}"),
    ("min", 0.94, f"'0.94' has no unit; expected {MINIMUM}"),
    ("min", "fast", f"'fast' is not a bit rate; expected {MINIMUM}"),
    ("min", "nan Mbit/s", f"'nan' is not a finite number; expected {MINIMUM}"),
    ("min", "-5%", f"'-5' is negative; expected {MINIMUM}"),
    ("min", "101%", f"'101%' is more than 100%; expected {MINIMUM}"),
    ("min", "10 MBps", f"'10 MBps' looks like bytes per second; expected bits: {RATE}"),
    ("min", "9" * 90, f"expected {MINIMUM}, got '{'9' * 80}...'"),
    ("sum", [1], f"expected {MINIMUM}, got a list"),
    ("share", "90", f"'90' is not a share; expected {FRACTION}"),
    ("fairness", 1.5, f"1.5 is not {FRACTION}"),
    ("fairness", True, f"expected {FRACTION}, got 'true'"),
    ("tolerance", 3, f"'3' is not a share; expected {TOLERANCE}"),
    ("tolerance", "0%", f"'0%' tolerates nothing; expected {TOLERANCE}"),
    ("tolerance", "3% and 20", f"'20' has no unit; expected {TOLERANCE}"),
    ("tolerance", {"absolute": "20 Mbit/s"}, f"a tolerance needs its relative part; expected {TOLERANCE}"),
    ("retransmits", 0.1, f"'0.1' is not a share; expected {PART}"),
    ("loss", "150%", f"'150%' is more than 100%; expected {PART}"),
    ("latency", 5, f"'5' is not {DURATION}"),
    ("latency", "0 ms", f"'0 ms' can never be met; expected {DURATION}, longer than 0 s"),
    ("cpu", "40", f"'40' is not {CPU}"),
    ("cpu", "nan%", f"'nan' is not a finite number; expected {CPU}"),
    ("marginal", 2, f"'2' is not a share; expected {BAND}"),
    ("marginal", "100%", f"'100%' is out of range; expected {BAND}"),
]
every_mistake = pytest.mark.parametrize(("word", "value", "says"), MISTAKES)

LAB = """\
pinet:
  switches: {sw: {backend: fixed, ports: [p1, p2]}}
  nodes:
    a: {board: pi4b, interfaces: {onboard: {port: sw/p1}}}
    b: {board: pi4b, interfaces: {onboard: {port: sw/p2}}}
  limits:
"""


def limits(word: str, value: object) -> dict[str, object]:
    """A marginal band needs a limit beside it."""
    return {"latency": "5 ms", word: value} if word == "marginal" else {word: value}


@every_mistake
def test_in_a_lab_file(word: str, value: object, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lab.yaml").write_text(f"{LAB}    - {json.dumps(limits(word, value))}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        labfile.load("lab.yaml")
    assert str(caught.value) == f"lab.yaml:7: pinet.limits[0].{word}: {says}"


@every_mistake
def test_in_a_marker(word: str, value: object, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_marker("test_it", [pytest.mark.pinet(**limits(word, value)).mark])
    assert str(caught.value) == f"test_it: {word}: {says}"


def planned(pytester: pytest.Pytester, lab: Path) -> pytest.RunResult:
    """Run pytest in this process, because it imports our modules for a second or two."""
    words = ("-p", "no:labgrid", "-p", "no:allure_pytest", "-Wignore:Module already imported", "--pinet-history=off")
    return pytester.runpytest_inprocess(*words, f"--pinet-lab={lab}", "--pinet-dry-run", "--show-capture=no", "-rN")


def test_in_a_call(pytester: pytest.Pytester) -> None:
    lab = pytester.path / "lab.yaml"
    lab.write_text(f"{LAB}    - {{min: 90%}}\n", encoding="utf-8")
    calls = [limits(word, value) for word, value, _ in MISTAKES]
    pytester.makepyfile(
        test_it=f"""
        import pytest
        @pytest.mark.pinet
        @pytest.mark.parametrize("limits", {calls!r}, ids=range({len(calls)}))
        def test_it(link, gate, limits):
            gate.tcp(link, **limits)
        """
    )
    result = planned(pytester, lab)
    result.assert_outcomes(errors=len(MISTAKES))
    said = [line.partition(": tcp: ")[2] for line in result.outlines if ": tcp: " in line]
    assert said == [f"{word}: {says}" for word, _, says in MISTAKES]


@pytest.mark.parametrize(
    ("word", "value", "says"),
    [one for one in MISTAKES if one[0] in ("min", "tolerance") and isinstance(one[1], str | int | float)],
)
def test_in_an_option(word: str, value: object, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        command_line_limits([str(value)], None, Metric(word))
    assert str(caught.value) == f"--pinet-{word} '{value}': {says}"


def test_a_ladder_and_a_comparison_take_one_share(pytester: pytest.Pytester) -> None:
    lab = pytester.path / "lab.yaml"
    lab.write_text(f"{LAB}    - {{min: 90%}}\n", encoding="utf-8")
    pytester.makepyfile(
        test_it="""
        import pytest
        @pytest.mark.pinet
        def test_ladder(link, gate):
            gate.udp_ladder(link, rates=["10M"], loss={"tx": "1%", "rx": "2%"})
        @pytest.mark.pinet
        def test_comparison(link, gate):
            gate.compare(link, tolerance={"tx": "3%", "rx": "5%"})
        @pytest.mark.pinet
        def test_comparison_of_two_parts(link, gate):
            gate.compare(link, tolerance="3% and 20 Mbit/s")
        """
    )
    result = planned(pytester, lab)
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(
        [
            "*: udp_ladder: loss={'tx': '1%', 'rx': '2%'}: expected a share such as '0.1%', less than 100%",
            "*: compare: tolerance={'tx': '3%', 'rx': '5%'}: expected one share, such as '3%', for both directions",
            "*: compare: tolerance='3% and 20 Mbit/s': expected one share, such as '3%', for both directions",
        ]
    )


class TestInstructions:
    @pytest.mark.parametrize(
        ("written", "text", "most"),
        [
            ("1%", "1%", 47.52),
            ("20", "20 instructions", 20.0),
            (20, "20 instructions", 20.0),
            ("1% and 20", "1% and 20 instructions", 47.52),
            ("20 and 0.1 %", "0.1% and 20 instructions", 20.0),
            ("0", "0 instructions", 0.0),
        ],
    )
    def test_a_growth_exceeds_all_its_parts(self, written: object, text: str, most: float) -> None:
        (limit,) = parse_instructions(written, "the marker")
        assert (str(limit), limit.function) == (f"{text} (the marker)", "")
        assert limit.bound.most(4752.0) == pytest.approx(most)

    def test_a_mapping_names_functions(self) -> None:
        found = parse_instructions({"gem_rx": "1%", "macb_*": 4}, "the call")
        assert [(one.function, str(one.bound)) for one in found] == [("gem_rx", "1%"), ("macb_*", "4 instructions")]

    @pytest.mark.parametrize(
        ("text", "function", "growth"),
        [
            ("1%", "", "1%"),
            ("gem_rx=1% and 20", "gem_rx", "1% and 20 instructions"),
            ("macb_* = 4", "macb_*", "4 instructions"),
        ],
    )
    def test_the_command_line_names_a_function(self, text: str, function: str, growth: str) -> None:
        (found,) = parse_written_instructions(text, "--pinet-instructions")
        assert (found.function, str(found.bound)) == (function, growth)

    @pytest.mark.parametrize(
        "written", ["", [1], None, True, "1% and 2%", "3 and 4", "-4", "nan", {4: "1%"}, "20 Mbit/s"]
    )
    def test_a_mistake_names_the_accepted_form(self, written: object) -> None:
        with pytest.raises(ValueError, match=r"^instructions: .*(expected|is not) a (growth|name)"):
            parse_instructions(written, "the marker")
