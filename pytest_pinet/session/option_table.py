"""The one declaration of all settings of a run, and of the arguments of the markers.

Each setting ``NAME`` is the option ``--pinet-NAME`` of pytest, ``--NAME`` of ``pinet gate``, the environment variable
``PINET_NAME`` and the key ``pinet_NAME`` of pytest's configuration file. ``plugin`` and ``cli.config`` make
the options from it, ``session.settings`` reads the values, and ``pinet config`` and the reference page print it. It
imports only the standard library, because every run of pytest imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# The arguments of the markers, for the list of ``pytest --markers`` and for messages about wrong ones.
PINET = (
    "pinet(board='*', nic='*', topology='pair', tuning={}, min, sum, share, fairness, tolerance, cost_tolerance, "
    "marginal, retransmits, loss, latency, cpu, max_drops, transactions, connections, packets, "
    "p50, p90, p99, late, idle_loss, first_answer, first_second=None, profile=None, reset=False, "
    "tuning_required=False, link_required=True)"
)
EXACT = "exact(nic='*', instructions=None, tolerance=None)"

# A value that xdist can send to its workers.
Value = str | int | float | bool | None

TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True)
class RunSetting:
    """One setting. ``parse`` reads a text, wherever it was written, and raises ValueError.

    ``metavar`` None: the option is a switch without a value. ``repeatable``: the value is a list of texts. ``default``
    is the text that is parsed if there is no value. ``otherwise`` says what holds if there is no value and no default.
    ``starts``: a value shows that the run is for pinet, even before a pinet test is collected. ``repeated``: the
    printed command that repeats a test contains it. ``from_folder`` is for values that can be paths: it returns a value
    of the configuration file as seen from the current folder.
    """

    name: str
    metavar: str | None
    help: str
    parse: Callable[[str], Value] = str
    repeatable: bool = False
    default: str | None = None
    otherwise: str = ""
    starts: bool = True
    repeated: bool = False
    from_folder: Callable[[str, Path], str] | None = None
    # The key of the lab file that holds if this setting has no value.
    lab_key: str | None = None

    @property
    def option(self) -> str:
        return f"--pinet-{self.name}"

    @property
    def gate_option(self) -> str:
        """The option of ``pinet gate``."""
        return f"--{self.name}"

    @property
    def variable(self) -> str:
        return f"PINET_{self.name.upper().replace('-', '_')}"

    @property
    def key(self) -> str:
        return self.variable.lower()

    @property
    def full_help(self) -> str:
        """The help with what follows from the other attributes."""
        notes = ["repeatable"] if self.repeatable else []
        notes += [f"default: {shown}"] if (shown := self.default or self.otherwise) else []
        return self.help + (f" ({'; '.join(notes)})" if notes else "")


def _switch(text: str) -> bool:
    if text.lower() not in TRUE + FALSE:
        raise ValueError(f"{text!r} is no switch; expected one of {', '.join(TRUE + FALSE)}")
    return text.lower() in TRUE


# A million tests, boots or shards are a mistake.
_MOST_DIGITS = 6


def _whole_number(text: str) -> int:
    digits = text.strip()
    if not digits.isascii() or not digits.isdigit():
        raise ValueError(f"{text!r} is not a whole number such as 5")
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits is too large; expected at most {_MOST_DIGITS} digits")
    return int(digits)


def _duration(text: str) -> float:
    from pytest_pinet.model.quantities import parse_duration

    return parse_duration(text if not text.strip().isdigit() else f"{text} s")


def _error_rate(text: str) -> float:
    from pytest_pinet.model.quantities import parse_fraction

    try:
        number: object = float(text)
    except ValueError:
        number = text
    rate = parse_fraction(number).fraction
    if not 0 < rate <= 0.2:
        raise ValueError(f"{text!r} is out of range; expected more than 0 and at most 20%")
    return rate


def profile_name(text: str) -> str:
    """Return the name of a profile. Raises ValueError."""
    from pytest_pinet.execution.names import unknown
    from pytest_pinet.judge.profile import OTHER_WORDS, PROFILES

    if text not in PROFILES and text not in OTHER_WORDS:
        raise ValueError(unknown("profile", text, PROFILES))
    return OTHER_WORDS.get(text, text)


def _confirm(text: str) -> str:
    from pytest_pinet.execution.names import unknown

    if text not in CONFIRMATIONS:
        raise ValueError(unknown("way to confirm", text, CONFIRMATIONS))
    return text


def _path(text: str, folder: Path) -> str:
    return str(folder / text)


def _lab_path(text: str, folder: Path) -> str:
    from pytest_pinet.config.lab_path import lab_of_ini

    return lab_of_ini(text, folder)


def _path_or_word(text: str, folder: Path) -> str:
    return text if text in WORDS and not (folder / text).exists() else _build(text, folder)


def _build(text: str, folder: Path) -> str:
    from pytest_pinet.execution.names import is_url

    return text if is_url(text) else str(folder / text)


def _path_or_url(text: str, folder: Path) -> str:
    from pytest_pinet.history.history import OFF

    return text if "://" in text or text.lower() in OFF else str(folder / text)


RUNNING, ACCEPTED = WORDS = ("running", "accepted")
CONFIRMATIONS = ("connection", "link-up")
SETTINGS = (
    RunSetting(
        "lab",
        "FILE",
        "lab file, or name of a packaged lab such as 'virtual'",
        otherwise="none",
        from_folder=_lab_path,
    ),
    *(
        RunSetting(axis, "GLOB", f"measure only with {whose} that matches, such as {example}", repeatable=True)
        for axis, whose, example in (
            ("board", "a board", "'pi4*'"),
            ("nic", "a NIC", "rtl8153"),
            ("topology", "a topology", "'incast:*'"),
            ("tuning", "a tuning", "'rps=*'"),
        )
    ),
    RunSetting(
        "min",
        "LIMIT",
        "the least goodput, such as '90%' or 'pi4b:*/pair=tx=700 Mbit/s'; overrides limits of tests and lab file",
        repeatable=True,
        repeated=True,
    ),
    RunSetting(
        "tolerance",
        "SHARE",
        "how far goodput may be below its accepted baseline, or B below A, such as '3%' or 'pi4b:*/pair=tx=5%'",
        repeatable=True,
        repeated=True,
    ),
    RunSetting(
        "cost-tolerance",
        "SHARE",
        "how much more processor time and interrupts a Gbit may take with B than with A, such as '20%'",
        repeatable=True,
        repeated=True,
        otherwise="10%",
    ),
    RunSetting(
        "profile",
        "NAME",
        "how long to measure for a verdict: fast, standard, soak or full",
        profile_name,
        otherwise="standard",
        repeated=True,
        lab_key="profile",
    ),
    RunSetting(
        "error-rate",
        "SHARE",
        "how often a verdict may be wrong by chance, a pass or a fail; a smaller share takes longer. When it holds: "
        "docs/explanation/error-rates.md",
        _error_rate,
        default="1%",
        starts=False,
        repeated=True,
    ),
    RunSetting(
        "shards",
        "N",
        "this run is one of N that gate the same build and that 'pinet merge' joins; for builds measured alternately, "
        "--pinet-error-rate then holds for all N together",
        lambda text: max(_whole_number(text), 1),
        default="1",
        starts=False,
        repeated=True,
    ),
    RunSetting(
        "confirm",
        "HOW",
        "confirm a suspected regression with 'connection': only fresh connections; 'link-up': also a fresh link-up",
        _confirm,
        default="link-up",
        starts=False,
        repeated=True,
    ),
    RunSetting("strict", None, "a marginal result fails", _switch, starts=False, repeated=True),
    RunSetting("require", "N", "fail if fewer than N results were measured", _whole_number, default="0"),
    RunSetting(
        "build",
        "PATH",
        "build under test: build.yaml, a folder, a .deb, Image,modules.tar.xz or module.ko; booted alternately with "
        "the known-good build, and judged against it",
        repeated=True,
        from_folder=_build,
    ),
    RunSetting(
        "against",
        "PATH",
        "known-good build to compare --pinet-build with; 'running': the build that is installed on the boards; "
        "'accepted': the accepted baselines, without a second build",
        otherwise=RUNNING,
        repeated=True,
        from_folder=_path_or_word,
    ),
    RunSetting(
        "layout-counts",
        None,
        "a slower build is a regression even if only the order and the addresses of its code differ",
        _switch,
        starts=False,
        repeated=True,
    ),
    RunSetting(
        "exact",
        None,
        "count the instructions of both builds in emulated machines, without a lab; one boot of each build, or five if "
        "they differ",
        _switch,
        repeated=True,
    ),
    RunSetting(
        "instructions",
        "GROWTH",
        "with --pinet-exact: how much the instructions for each packet may grow, such as '2%' or 'gem_rx=0'; overrides "
        "limits of tests",
        repeatable=True,
        repeated=True,
        otherwise="1% and 20",
    ),
    RunSetting(
        "boots",
        "N",
        "boot each board at most N times",
        _whole_number,
        otherwise="16",
        repeated=True,
    ),
    RunSetting(
        "kselftest",
        "DIR",
        "the kernel's selftests, for tests that run them: a kernel tree, or a folder or archive of installed selftests",
        starts=False,
        repeated=True,
        from_folder=_path,
    ),
    RunSetting(
        "yes",
        None,
        "boot builds without a question on boards without power control; a person may have to unplug such a board",
        _switch,
        starts=False,
    ),
    RunSetting("dry-run", None, "print what would be measured, and how long it takes; touch no board", _switch),
    RunSetting("json", "PATH", "write the results also to this file", from_folder=_path),
    RunSetting(
        "history",
        "URL",
        "history of all runs: a file, postgresql://user@host/name, or 'off'",
        otherwise=".pinet/history.db",
        starts=False,
        from_folder=_path_or_url,
    ),
    RunSetting(
        "run-dir",
        "DIR",
        "folder for .pinet/, which has a folder for each run",
        otherwise="pytest's rootdir",
        starts=False,
        from_folder=_path,
    ),
    RunSetting(
        "acquire-timeout",
        "DURATION",
        "how long to wait for boards that other runs use",
        _duration,
        default="15 min",
        starts=False,
        repeated=True,
    ),
)
