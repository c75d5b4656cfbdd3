"""Each setting has the same value wherever it was written; a bad value is reported with its place."""

from __future__ import annotations

import pytest
import yaml  # noqa: F401 - pytester unloads what a test imports, and a second copy of PyYAML reads no tags

from pytest_pinet.errors import ConfigError
from pytest_pinet.session.option_table import SETTINGS, RunSetting
from pytest_pinet.session.settings import Source, settings

# A text of each setting that is not its default, and its value.
VALUES: dict[str, tuple[str, object]] = {
    "lab": ("lab.yaml", "lab.yaml"),
    "board": ("pi4b", ["pi4b"]),
    "nic": ("onboard", ["onboard"]),
    "topology": ("pair", ["pair"]),
    "tuning": ("rps=all", ["rps=all"]),
    "min": ("pi4b:*/pair=tx=700 Mbit/s", ["pi4b:*/pair=tx=700 Mbit/s"]),
    "tolerance": ("5%", ["5%"]),
    "cost-tolerance": ("20%", ["20%"]),
    "profile": ("soak", "soak"),
    "error-rate": ("2.5%", 0.025),
    "shards": ("4", 4),
    "confirm": ("connection", "connection"),
    "strict": ("true", True),
    "require": ("3", 3),
    "build": ("new.yaml", "new.yaml"),
    "against": ("accepted", "accepted"),
    "layout-counts": ("true", True),
    "exact": ("true", True),
    "instructions": ("gem_rx=1%", ["gem_rx=1%"]),
    "boots": ("8", 8),
    "kselftest": ("linux", "linux"),
    "yes": ("true", True),
    "dry-run": ("true", True),
    "json": ("out.json", "out.json"),
    "history": ("off", "off"),
    "run-dir": ("runs", "runs"),
    "acquire-timeout": ("90s", 90.0),
}
BAD = {
    "profile": ("fats", "unknown profile 'fats', did you mean 'fast'?"),
    "error-rate": ("50%", "'50%' is out of range; expected more than 0 and at most 20%"),
    "confirm": ("linkup", "unknown way to confirm 'linkup', did you mean 'link-up'?"),
    "strict": ("maybe", "'maybe' is no switch; expected one of 1, true, yes, on, 0, false, no, off"),
    "require": ("-1", "'-1' is not a whole number such as 5"),
    "shards": ("x", "'x' is not a whole number such as 5"),
    "layout-counts": ("maybe", "'maybe' is no switch; expected one of 1, true, yes, on, 0, false, no, off"),
    "exact": ("maybe", "'maybe' is no switch; expected one of 1, true, yes, on, 0, false, no, off"),
    "boots": ("1000000", "a number of 7 digits is too large; expected at most 6 digits"),
    "yes": ("maybe", "'maybe' is no switch; expected one of 1, true, yes, on, 0, false, no, off"),
    "dry-run": ("maybe", "'maybe' is no switch; expected one of 1, true, yes, on, 0, false, no, off"),
    "acquire-timeout": ("soon", "'soon' is not a duration such as"),
}
every_setting = pytest.mark.parametrize("one", SETTINGS, ids=lambda one: one.name)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in SETTINGS:
        monkeypatch.delenv(one.variable, raising=False)


def test_every_setting_has_a_sample() -> None:
    assert [one.name for one in SETTINGS] == list(VALUES)
    parsed = {one.name for one in SETTINGS if one.parse is not str}
    assert parsed == set(BAD)


@every_setting
def test_the_value_is_the_same_wherever_it_is_written(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, one: RunSetting
) -> None:
    text, value = VALUES[one.name]
    on_line = settings(pytester.parseconfig(one.option if one.metavar is None else f"{one.option}={text}"))
    assert (on_line[one.name], on_line.origin(one.name)) == (value, one.option)
    monkeypatch.setenv(one.variable, text)
    in_environment = settings(pytester.parseconfig())
    assert (in_environment[one.name], in_environment.origin(one.name)) == (value, one.variable)
    monkeypatch.delenv(one.variable)
    pytester.makeini(f"[pytest]\naddopts = -p no:cacheprovider\n{one.key} = {text}\n")
    in_file = settings(pytester.parseconfig())
    is_path = one.from_folder is not None and text not in ("accepted", "off")
    assert in_file[one.name] == (str(pytester.path / text) if is_path else value)
    assert in_file.origin(one.name) == f"tox.ini:3: {one.key}"
    assert in_file.written[one.name].source is Source.CONFIGURATION


@pytest.mark.parametrize("name", BAD)
def test_a_bad_value_is_reported_with_its_place(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (one,) = (one for one in SETTINGS if one.name == name)
    text, message = BAD[name]

    def error(*words: str) -> str:
        with pytest.raises(ConfigError) as caught:
            settings(pytester.parseconfig(*words))
        return str(caught.value)

    if one.metavar is not None:
        assert error(f"{one.option}={text}").startswith(f"{one.option}: {message}")
    assert error("-o", f"{one.key}={text}").startswith(f"-o {one.key}: {message}")
    monkeypatch.setenv(one.variable, text)
    assert error().startswith(f"{one.variable}: {message}")
    monkeypatch.delenv(one.variable)
    pytester.makepyprojecttoml(f'[tool.pytest.ini_options]\n{one.key} = "{text}"\n')
    assert error().startswith(f"pyproject.toml:2: {one.key}: {message}")


def test_the_first_source_with_a_value_counts(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makeini("[pytest]\npinet_board =\n    pi3b\n    pi5\n")
    assert settings(pytester.parseconfig())["board"] == ["pi3b", "pi5"]
    monkeypatch.setenv("PINET_BOARD", "pi4b; cm4;")
    assert settings(pytester.parseconfig())["board"] == ["pi4b", "cm4"]
    assert settings(pytester.parseconfig("--pinet-board=pi5", "--pinet-board=pi0"))["board"] == ["pi5", "pi0"]
    monkeypatch.setenv("PINET_BOARD", "")
    assert settings(pytester.parseconfig())["board"] == ["pi3b", "pi5"]


def test_a_key_on_the_command_line_goes_before_the_environment(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PINET_REQUIRE", "5")
    found = settings(pytester.parseconfig("-o", "pinet_require=3"))
    assert (found["require"], found.written["require"].source) == (3, Source.COMMAND_LINE)


def test_addopts_is_named(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\naddopts = --pinet-require=2\n")
    assert settings(pytester.parseconfig()).origin("require") == "--pinet-require in addopts"
    assert settings(pytester.parseconfig("--pinet-require", "3")).origin("require") == "--pinet-require"


def test_addopts_of_the_environment_is_named(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-q --pinet-require=2")
    assert settings(pytester.parseconfig()).origin("require") == "--pinet-require in PYTEST_ADDOPTS"


def test_getoption_returns_the_value(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Suites and other plugins read settings of pinet with pytest's own function."""
    monkeypatch.setenv("PINET_PROFILE", "full")
    config = pytester.parseconfig()
    assert settings(config)["profile"] == config.getoption("--pinet-profile") == "full"


def test_defaults(pytester: pytest.Pytester) -> None:
    found = settings(pytester.parseconfig())
    assert {one.name: found[one.name] for one in SETTINGS if found[one.name] not in (None, [])} == {
        "error-rate": 0.01,
        "confirm": "link-up",
        "require": 0,
        "shards": 1,
        "acquire-timeout": 900.0,
    }


def test_a_limit_of_the_environment_is_named_in_its_error(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PINET_MIN", "lots")
    pytester.makepyfile("def test_nothing(): pass")
    done = pytester.runpytest_inprocess("-p", "no:labgrid")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: PINET_MIN 'lots': 'lots' is not a bit rate; *"])


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("--pinet-bord=pi4b", "--pinet-board"),
        ("--pinet-instr=1%", "--pinet-instructions"),
        ("--nic=macb", "--pinet-nic"),
    ],
)
def test_the_nearest_option_is_suggested(pytester: pytest.Pytester, word: str, meant: str) -> None:
    done = pytester.runpytest_inprocess(word)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"*unrecognized arguments: {word}", f"  did you mean: {meant}"])
