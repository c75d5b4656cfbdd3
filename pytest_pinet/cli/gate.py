"""``pinet gate BUILD``: decides whether a kernel, module or boot configuration may be merged.

pytest runs the tests. The exit code is the decision.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_pinet.cli.command import INTERRUPTED, OF_BISECTION, ErrorCodes, say, with_sections
from pytest_pinet.cli.config import (
    FILES,
    SECTIONS,
    near_option,
    option_names,
    print_hints,
    pytest_words,
    settings_options,
    spelled,
)
from pytest_pinet.cli.options import QUIET
from pytest_pinet.cli.tree import HEADING, NAMES, built_refs, kernel_config, tree_options
from pytest_pinet.errors import BuildError, ConfigError, OutputError, PinetError, sentence
from pytest_pinet.execution.files import exists, is_folder
from pytest_pinet.execution.names import quoted
from pytest_pinet.model.verdict import SKIP, STOP

# pytest and the session take a second to import, and the help needs neither.
if TYPE_CHECKING:
    import pytest

    from pytest_pinet.model.record.change import ChangeHeadRecord

UNDECIDED = 3
# What a gate runs if no test is named: on exact boards, and on boards at this profile.
EXACT_SUITE = ("--pyargs", "pytest_pinet.suites.test_exact")
SUITE = ("--pyargs", "pytest_pinet.suites.test_everyday")
SUITE_PROFILE = "fast"


@click.command(
    cls=with_sections(
        {
            "Known-good build": ["--against"],
            HEADING: NAMES,
            **SECTIONS,
            "How to run": ["--dry-run", "--yes", "--json", "--bisect"],
        }
    ),
    context_settings={"ignore_unknown_options": True},
)
@click.argument("build", type=FILES, required=False)
@tree_options
@click.option("--bisect", is_flag=True, help=f"For git bisect run: exit with {SKIP} if this build cannot be judged.")
@click.argument("pytest_args", nargs=-1, type=FILES)
@settings_options("build")
def gate(
    build: str | None,
    tree: str | None,
    good: str | None,
    bad: str | None,
    config: str | None,
    bisect: bool,
    pytest_args: tuple[str, ...],
    **given: object,
) -> None:
    """Boot BUILD and the known-good build alternately, measure both, and decide whether BUILD may be merged.

    BUILD is a build.yaml, a folder, a .deb, Image,modules.tar.xz or module.ko. All further arguments are passed to
    pytest: test paths, -m, -k, --alluredir and so on. If no test is named, the packaged suite everyday runs with
    profile fast: every NIC of the lab, TCP in each direction and ping. With --exact, the packaged exact test runs.

    \b
    pinet gate out/ --lab bench.yaml --board pi4b   (a kernel, on boards)
    pinet gate macb.ko --exact --nic macb           (a driver, without a board)
    pinet gate --tree ~/linux --good v6.12 --exact  (a commit, against another)

    Each option can also be a variable of the environment (PINET_NIC) or a key of pytest's configuration (pinet_nic). If
    you call pytest yourself, its option is --pinet-nic.

    Exit code: 0 if BUILD may be merged; 1 if it is slower or broken; 2 if the lab failed; 3 if there is no decision; 4
    for wrong arguments.

    Exit code with --bisect: 0 for good; 1 for bad; 125 to skip a commit that cannot be loaded, does not boot or gives
    no decision; 132 for wrong arguments, and 131 if this machine cannot judge any commit (--exact), which end the
    bisection.
    """
    context = click.get_current_context()
    first = build or ""
    is_option = first.startswith("-")
    near = near_option(first.partition("=")[0], option_names(context.command)) if is_option else None
    if is_option and (near or tree is None):
        message = (
            f"unknown option {quoted(first)}, did you mean '{near}'? Options of pytest come after BUILD"
            if near
            else f"{quoted(first)} is no option of pinet gate; options of pytest come after BUILD"
        )
        raise click.UsageError(message, context)
    if tree is None:
        unused = next((name for name, text in (("good", good), ("bad", bad), ("config", config)) if text), None)
        if unused is not None:
            raise click.UsageError(f"--{unused} is for --tree DIR, the git repository of the kernel", context)
        if build is None:
            raise click.UsageError("name a BUILD, or two commits of a kernel tree: --tree DIR --good REF", context)
        _gate(build, bisect, pytest_args, given)
        return
    if good is None:
        raise click.UsageError("--tree needs --good REF, the known-good commit", context)
    if bisect or given["pinet_against"] or (first and not is_option and not _names_tests([first])):
        wrong = "--bisect" if bisect else "--against" if given["pinet_against"] else f"BUILD ({first})"
        raise click.UsageError(f"--tree builds both sides itself: leave out {wrong}", context)
    words = (first, *pytest_args) if first else pytest_args
    try:
        plan = bool(given["pinet_dry_run"])
        with built_refs(tree, good, bad or "HEAD", kernel_config(config, given), plan) as folders:
            if folders is not None:
                _gate(folders[1], False, words, {**given, "pinet_against": folders[0]})
    except BuildError as error:
        say(f"pinet: {error}")
        sys.exit(1)


def _gate(build: str, bisect: bool, pytest_args: tuple[str, ...], given: Mapping[str, object]) -> None:
    """Run the tests, and exit with the decision."""
    import pytest

    from pytest_pinet.builds.load import load_build

    context = click.get_current_context()
    if bisect:
        try:
            load_build(build)
        except ConfigError as error:
            # A commit that does not compile leaves no image, or an image that does not fit its modules.
            say(f"pinet: {error}")
            sys.exit(SKIP)
    words = [f"--pinet-build={build}", *pytest_words(given)]
    words += EXACT_SUITE if given["pinet_exact"] and not _names_tests(pytest_args) else ()
    answer = RunWatcher(spelled(pytest_args) | {"--pinet-build": "BUILD"}, not given["pinet_exact"])
    status = answer.without_workers(int(pytest.main([QUIET, *words, *pytest_args], plugins=[answer])))
    if status == pytest.ExitCode.USAGE_ERROR:
        print_hints(answer.unknown(pytest_args), context.command)
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        why = "check -k, -m, the options that select boards, NICs, topologies and tunings, and the test paths"
        say(f"pinet: {sentence(f'no test is selected, so there is no answer on {build}: {why}')}")
    if answer.planned and status == 0:
        sys.exit(SKIP if bisect else 0)
    code = code_of(status, answer.head, answer.refused, bisect)
    # The next commit would be skipped for the same reason.
    sys.exit(STOP if code == SKIP and answer.no_board else code)


def _names_tests(words: Sequence[str]) -> bool:
    """Return whether a word of the command line is the path of a test, or of a package of tests.

    The value of an option can be the name of a file or folder, too: ``--durations 3`` beside a folder 3.
    """
    for before, word in zip(("", *words), words, strict=False):
        is_value = before.startswith("--") and "=" not in before
        path = Path(word.partition("::")[0])
        if exists(path) and (path.suffix == ".py" or (is_folder(path) and not is_value)):
            return True
    return "--pyargs" in words


class RunWatcher:
    """A pytest plugin that stores the outcome of the run. Messages call options as ``spelled`` says."""

    def __init__(self, spelled: Mapping[str, str], has_suite: bool) -> None:
        self._spelled = dict(spelled)
        # Run the suite everyday if neither the command line nor ``testpaths`` names tests.
        self._has_suite = has_suite
        self.head: ChangeHeadRecord | None = None
        self.refused: PinetError | None = None
        self._parser: pytest.Parser | None = None
        # A dry run gives no answer.
        self.planned = False
        self._failed = False
        self._no_board = False

    def pytest_addoption(self, parser: pytest.Parser) -> None:
        """Keep the parser, which knows the options of all plugins at the end."""
        self._parser = parser

    def pytest_load_initial_conftests(self, early_config: pytest.Config, args: list[str]) -> None:
        """Name the suite, if no test is named."""
        known = early_config.known_args_namespace
        self._has_suite &= not (known.file_or_dir or early_config.getini("testpaths"))
        if self._has_suite:
            args += SUITE
            # pytest reads the conftest files of these before it parses args again.
            known.pyargs, known.file_or_dir = True, [SUITE[-1]]

    def unknown(self, words: Sequence[str]) -> list[str]:
        """Return the words that pytest does not know as options."""
        import pytest

        try:
            return self._parser.parse_known_and_unknown_args(words)[1] if self._parser is not None else []
        except pytest.UsageError:
            return []

    def pytest_configure(self, config: pytest.Config) -> None:
        """Give messages the names that the user wrote, and the suite its profile, before the session reads options."""
        from pytest_pinet.session import settings
        from pytest_pinet.session.option_table import SETTINGS

        setattr(config.option, settings.SPELLED, self._spelled)
        profile = next(one for one in SETTINGS if one.name == "profile")
        if self._has_suite and not settings.is_written(config, profile):
            setattr(config.option, profile.variable.lower(), SUITE_PROFILE)

    @property
    def no_board(self) -> bool:
        """Whether nothing was measured, and an exact board cannot run even the known-good build."""
        return self._no_board and (self.head is None or not self.head.entries)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a board that cannot run the known-good build."""
        from pytest_pinet.session.exact_gate import NO_BOARD

        self._no_board |= NO_BOARD in report.keywords

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note an interruption; ``-x`` with ``-n`` also ends this way."""
        from pytest_pinet.session.run_recorder import after_failures

        self._failed = after_failures(excinfo)

    def without_workers(self, status: int) -> int:
        """Return pytest's exit code as it would be without ``-n``."""
        import pytest

        return int(pytest.ExitCode.TESTS_FAILED) if self._failed and status == pytest.ExitCode.INTERRUPTED else status

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Read the outcome after everything has been written."""
        session = config.pluginmanager.get_plugin("pinet-session")
        if session is None:
            return
        self.planned = session.dry_run is not None
        record = session.recorder.record
        self.head = record.change if record is not None else None
        builds, exact = map(config.pluginmanager.get_plugin, ("pinet-builds", "pinet-exact"))
        if builds is not None:
            self.refused = builds.boots.refused
        elif exact is not None:
            self.refused = exact.refused
        if isinstance(session.recorder.unwritten, OutputError):
            self.refused = session.recorder.unwritten


def code_of(status: int, head: ChangeHeadRecord | None, refused: PinetError | None, bisect: bool) -> int:
    """Return the exit code. pytest's ``status`` counts only if it kept the run from an answer.

    If a board refuses a build that does not fit the board (a module of another kernel), the user made no mistake.
    If a board can boot no build at all, it is the user's mistake.
    """
    import pytest

    codes = OF_BISECTION if bisect else ErrorCodes()
    if status == pytest.ExitCode.INTERRUPTED:
        return INTERRUPTED
    if status == pytest.ExitCode.USAGE_ERROR:
        if isinstance(refused, OutputError):
            return codes.output
        return SKIP if bisect and isinstance(refused, ConfigError) else codes.mistake
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        return codes.mistake
    if status == pytest.ExitCode.INTERNAL_ERROR:
        return codes.internal
    if head is None:
        # All tests were skipped.
        return SKIP if bisect else UNDECIDED
    return head.bisect_exit if bisect else head.exit
