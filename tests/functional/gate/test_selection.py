"""The combinations and ids of a marked test, and the messages on combinations that do not exist."""

from pathlib import Path

import pytest

LAB = Path(__file__).parents[3] / "lab" / "virtual.yaml"

PLAIN = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="*", topology="pair", min="94%")
def test_line_rate(link, gate):
    gate.tcp(link, direction="tx", streams=1)
"""


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    # labgrid's own plugin cannot be started twice in one process, nor can SQLAlchemy be imported twice.
    words = ("-p", "no:labgrid", "--pinet-history=off")
    return pytester.runpytest_inprocess(*words, *options)


def collect(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return run(pytester, "--collect-only", "-q", "--strict-markers", f"--pinet-lab={LAB}", *options)


def ids(result: pytest.RunResult) -> list[str]:
    return [line.partition("::")[2] for line in result.outlines if "::" in line]


def test_ids_name_board_nic_and_topology(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_probe=PLAIN)
    assert ids(collect(pytester)) == [
        "test_line_rate[pi4b:onboard/pair]",
        "test_line_rate[pi4b:ax88179/pair]",
        "test_line_rate[pi4b:rtl8153/pair]",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-m", "nic_rtl8153"], ["test_line_rate[pi4b:rtl8153/pair]"]),
        (["-m", "board_pi4b and not nic_onboard and topology_pair"],
         ["test_line_rate[pi4b:ax88179/pair]", "test_line_rate[pi4b:rtl8153/pair]"]),
        (["-k", "pi4b:rtl8153"], ["test_line_rate[pi4b:rtl8153/pair]"]),
        (["--pinet-nic", "ax*"], ["test_line_rate[pi4b:ax88179/pair]"]),
        (["--pinet-nic", "ax*", "--pinet-nic", "rtl*"],
         ["test_line_rate[pi4b:ax88179/pair]", "test_line_rate[pi4b:rtl8153/pair]"]),
        (["--pinet-nic", "cablecreation-*"], ["test_line_rate[pi4b:rtl8153/pair]"]),
        (["--pinet-board", "pi5"], []),
        (["--pinet-topology", "pair", "--pinet-nic", "genet"], ["test_line_rate[pi4b:onboard/pair]"]),
    ],
)  # fmt: skip
def test_selection(pytester: pytest.Pytester, options: list[str], expected: list[str]) -> None:
    pytester.makepyfile(test_probe=PLAIN)
    assert ids(collect(pytester, *options)) == expected


def test_selection_leaves_other_tests_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_probe=PLAIN + "\ndef test_other():\n    pass\n")
    assert ids(collect(pytester, "--pinet-board", "pi5")) == ["test_other"]


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--pinet-board=pi4", "--pinet-board: unknown board of lab virtual 'pi4', did you mean 'pi4b'?*"),
        ("--pinet-nic=rtl8135", "--pinet-nic: unknown nic of lab virtual 'rtl8135', did you mean 'rtl8153'?*"),
        ("--pinet-topology=pare", "--pinet-topology: unknown topology 'pare', did you mean 'pair'?*"),
        ("--pinet-min=pi4v=90%", "--pinet-min 'pi4v=90%': unknown board of this lab 'pi4v', did you mean 'pi4b'?*"),
        ("--pinet-min=pi4b:rtl8135=9%", "*unknown NIC of these boards 'rtl8135', did you mean 'rtl8153'?*"),
        ("--pinet-tuning=rsp=all", "--pinet-tuning: unknown tuning 'rsp', did you mean 'rps'[?]"),
        ("--pinet-min=900 MBps", "*'900 MBps' looks like bytes per second; expected bits*"),
    ],
)
def test_an_option_that_matches_nothing_is_a_usage_error(pytester: pytest.Pytester, option: str, sentence: str) -> None:
    pytester.makepyfile(test_probe=PLAIN)
    result = collect(pytester, option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {sentence}"])


def test_require_counts_also_when_no_pinet_test_is_there(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_probe="def test_plain():\n    pass\n")
    result = run(pytester, "--pinet-require", "5")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["pinet: --pinet-require 5: only 0 measured"])


@pytest.mark.parametrize("source", ["environment", "ini"])
def test_a_lab_file_that_is_wrong_is_a_usage_error_wherever_it_is_named(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    pytester.makepyfile(test_probe=PLAIN)
    if source == "environment":
        monkeypatch.setenv("PINET_LAB", "nowhere.yaml")
    else:
        pytester.makeini("[pytest]\npinet_lab = nowhere.yaml\n")
    result = run(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *nowhere.yaml: this file does not exist*"])


def test_a_run_folder_that_cannot_be_made_is_a_usage_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_probe=PLAIN)
    (pytester.path / "file").write_text("")
    result = run(pytester, f"--pinet-lab={LAB}", f"--pinet-run-dir={pytester.path / 'file'}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: cannot write *choose another with --pinet-run-dir"])


def test_a_dry_run_has_no_workers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_probe=PLAIN)
    result = run(pytester, f"--pinet-lab={LAB}", "--pinet-dry-run", "-n", "2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --pinet-dry-run plans in one process: remove -n"])


@pytest.mark.parametrize(
    ("arguments", "id_", "reason"),
    [
        ("board='pi4c'", "pi4c:any/pair",
         "no board 'pi4c' in lab virtual (nearest is 'pi4b'; boards: cm4, pi3b, pi4b, pi5)"),
        ("board='pi5', nic='rtl8126'", "pi5:rtl8126/pair",
         "no NIC 'rtl8126' on board 'pi5' in lab virtual (nearest is 'rtl8125'; NICs: onboard, rtl8125)"),
        ("board='pi5', nic='wlan'", "pi5:wlan/pair",
         "no NIC 'wlan' on board 'pi5' in lab virtual (NICs: onboard, rtl8125)"),
    ],
)  # fmt: skip
def test_a_skip_names_what_is_missing_and_what_is_near(
    pytester: pytest.Pytester, arguments: str, id_: str, reason: str
) -> None:
    pytester.makepyfile(test_probe=f"import pytest\n@pytest.mark.pinet({arguments})\ndef test_it(link):\n    pass\n")
    result = run(pytester, f"--pinet-lab={LAB}", "-rs")
    result.assert_outcomes(skipped=1)
    text = result.stdout.str()
    assert reason in text
    assert f"test_it[{id_}]" in text


def test_without_a_lab_nothing_is_measured_and_that_is_said(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_probe=PLAIN)
    result = run(pytester)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(
        ["*no lab: pass --pinet-lab FILE, set PINET_LAB or the ini key pinet_lab", "0 measured*"]
    )


def test_require_makes_nothing_measured_red(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_probe=PLAIN)
    result = run(pytester, "--pinet-require", "1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["pinet: --pinet-require 1: only 0 measured"])


@pytest.mark.parametrize("source", ["environment", "ini"])
def test_lab_from_environment_and_ini(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    pytester.makepyfile(test_probe=PLAIN)
    if source == "environment":
        monkeypatch.setenv("PINET_LAB", str(LAB))
    else:
        pytester.makeini(f"[pytest]\npinet_lab = {LAB}\n")
    result = run(pytester, "--collect-only", "-q")
    assert "test_line_rate[pi4b:rtl8153/pair]" in ids(result)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("bord='pi4b'", "unknown argument of the pinet marker 'bord', did you mean 'board'?*: pinet(board='[*]'*"),
        (
            "'pi4b'",
            "the pinet marker takes keywords only: pinet(board='[*]', nic='[*]', topology='pair', tuning={}, *)",
        ),
        ("board=4", "board=4 in the pinet marker: expected a name or glob, or a list of them"),
        ("topology='pare'", "topology: 'pare' is not a topology; expected pair, pairs:N, *"),
        ("min=0.94", "min: '0.94' has no unit; expected a rate such as '2.3 Gbit/s' or a share such as '94%'"),
    ],
)
def test_a_mistake_in_the_marker_is_one_sentence(pytester: pytest.Pytester, arguments: str, sentence: str) -> None:
    pytester.makepyfile(test_it=f"import pytest\n@pytest.mark.pinet({arguments})\ndef test_it(link):\n    pass\n")
    result = run(pytester, f"--pinet-lab={LAB}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"test_it.py::test_it: {sentence}"])
    assert "Traceback" not in result.stdout.str()


def test_a_mistake_in_a_tuning_names_file_and_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="import pytest\n\n@pytest.mark.pinet(tuning={'rsp': 'all'})\ndef test_it(link):\n    pass\n"
    )
    result = run(pytester, f"--pinet-lab={LAB}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["test_it.py:3: test_it.py::test_it: tuning: unknown tuning 'rsp', did you mean 'rps'[?]"]
    )


TUNED = """
import pytest

@pytest.mark.pinet(board="pi4b", nic="onboard", tuning=[{}, {"rps": "all", "mtu": 9000}, {"arm_freq": 2000}])
def test_one(link):
    pass

@pytest.mark.pinet(board="pi4b", nic="onboard", tuning=[{"arm_freq": 2000}, {"mtu": 9000}])
def test_two(link):
    pass
"""


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        # Tests with the same boot settings come last, in sequence.
        ((), ["one", "one/rps=all+mtu=9000", "two/mtu=9000", "one/arm_freq=2000", "two/arm_freq=2000"]),
        (("--pinet-tuning", "none"), ["one"]),
        (("--pinet-tuning", "mtu=9000"), ["one/rps=all+mtu=9000", "two/mtu=9000"]),
        (("-m", "tuning_rps_all"), ["one/rps=all+mtu=9000"]),
        (("-m", "tuning_none"), ["one"]),
    ],
)
def test_a_tuning_is_chosen_by_option_and_marker(
    pytester: pytest.Pytester, options: tuple[str, ...], chosen: list[str]
) -> None:
    pytester.makepyfile(test_probe=TUNED)
    result = run(pytester, f"--pinet-lab={LAB}", "--strict-markers", "--collect-only", "-q", *options)
    assert [i.replace("test_", "").replace("[pi4b:onboard/pair", "").rstrip("]") for i in ids(result)] == chosen


def test_a_dry_run_says_what_would_be_tuned(pytester: pytest.Pytester) -> None:
    test = TUNED.replace(
        "(link):\n    pass", "(link, gate, tune):\n    with tune(link, tso=False):\n        gate.tcp(link)"
    )
    pytester.makepyfile(test_probe=test)
    result = run(pytester, f"--pinet-lab={LAB}", "--pinet-dry-run")
    result.stdout.fnmatch_lines(
        [
            "*test_one?pi4b:onboard/pair/rps=all+mtu=9000?",
            "  tune rps=all on the NICs of the device under test, undone afterwards",
            "  tune mtu=9000 on the NICs of all ends, undone afterwards",
            "*test_one?pi4b:onboard/pair/arm_freq=2000?",
            "  tune arm_freq=2000 at a boot of the device under test, undone afterwards",
        ]
    )


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ("nic: rtl8153, port", "nic: rtl8135, port", "unknown NIC 'rtl8135', did you mean 'rtl8153'?"),
        (
            "\npinet:\n",
            "\npinet:\n  traffic_tool: ipref3\n",
            "pinet.traffic_tool: unknown traffic tool 'ipref3', did you mean 'iperf3'? *",
        ),
    ],
)
def test_a_mistake_in_the_lab_file_is_a_usage_error(
    pytester: pytest.Pytester, old: str, new: str, mistake: str
) -> None:
    text = LAB.read_text().replace(old, new, 1)
    line = next(n for n, t in enumerate(text.splitlines(), 1) if mistake.split("'")[1] in t)
    (pytester.path / "lab.yaml").write_text(text)
    pytester.makepyfile(test_probe=PLAIN)
    result = run(pytester, "--pinet-lab=lab.yaml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    pytest.LineMatcher(result.errlines[:1]).fnmatch_lines([f"ERROR: lab.yaml:{line}: {mistake}"])
    assert "Traceback" not in result.stderr.str()


def test_dry_run_prints_plan_commands_and_time_and_touches_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_probe=PLAIN)
    result = run(pytester, f"--pinet-lab={LAB}", "--pinet-dry-run", "--pinet-nic", "onboard")
    # pytest warns of modules that this process imported before.
    assert {**result.parseoutcomes(), "warnings": 0} == {"planned": 1, "deselected": 2, "warnings": 0}
    result.stdout.fnmatch_lines(
        [
            "*::test_line_rate[[]pi4b:onboard/pair[]]",
            "  tx: pi4b-1:onboard (sw1/p4) with pi4b-2:onboard (sw1/p6), 3 s for each connection",
            "    pi4b-1$ iperf3 -s -1 *",
            "    pi4b-2$ iperf3 -c 198.1* -R *",
            "total: 1 measurement on 2 nodes (pi4b-1, pi4b-2), about 4 s if the first values*",
        ]
    )
    assert not (pytester.path / ".pinet").exists()


CALLS = """
import pytest

@pytest.mark.parametrize("call", {calls})
@pytest.mark.pinet(board="pi3b", nic="onboard")
def test_it(link, gate, call):
    eval(call)
"""
MISTAKES = {
    "gate.tcp(link, 'tx', peer_bitrate='10M')": ["*peer_bitrate needs both directions at once (direction='bidir')*"],
    "gate.http(link, 'bidir')": ["*HTTP has one direction; expected 'tx'*"],
    "gate.http(link, requests='100')": ["*requests='100': expected a number for each second, such as '1200/s'*"],
    "gate.ping(link, min='1 Mbit/s')": ["*ping: it has no limit min=; expected loss=, latency=, tolerance=*"],
    "gate.udp_ladder(link, rates='90M')": ["*rates='90M': expected a list of rates*"],
}
COMMANDS = {
    "gate.http(link)": ["*$ nginx -c nginx.conf", "*$ wrk -t 1 -c 10 *"],
    "gate.ping(link)": ["*ping-c10-i0.2-s56, 3 times 2 s*"],
    "gate.udp_ladder(link, rates=['10M', '20M'])": ["*-b 10000000*", "*-b 20000000*"],
    "gate.tcp(link, 'bidir', peer_bitrate='10M')": ["*iperf3 -c * -R *", "*iperf3 -c * -R * -b 10000000*"],
}


@pytest.mark.parametrize(("said", "code"), [(MISTAKES, 1), (COMMANDS, 0)], ids=["mistakes", "commands"])
def test_a_dry_run_names_mistakes_and_commands_of_each_call(
    pytester: pytest.Pytester, said: dict[str, list[str]], code: int
) -> None:
    pytester.makepyfile(test_it=CALLS.format(calls=list(said)))
    done = run(pytester, f"--pinet-lab={LAB}", "--pinet-dry-run")
    assert done.ret == code
    for lines in said.values():
        done.stdout.fnmatch_lines(lines)
