"""``pinet gate BUILD``: may this kernel, module or boot configuration go in? pytest measures, the exit code answers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from pytest_pinet.errors import ConfigError
from pytest_pinet.judge.whole_change import SKIP

if TYPE_CHECKING:
    import pytest

    from pytest_pinet.errors import PinetError
    from pytest_pinet.report.change import ChangeHeadRecord

MISTAKE = 4
INTERRUPTED = 130
# `git bisect run` goes on after anything below 128 but 125, and would call a mistake of its user a bad commit.
ABORT = 128
LAB_ERROR, UNDECIDED = 2, 3


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("build")
@click.option(
    "--baseline", metavar="PATH", default="running", show_default=True,
    help="Known-good build; 'running': what the boards run by themselves; 'accepted': the accepted baselines.",
)  # fmt: skip
@click.option("--lab", "lab_file", metavar="FILE", help="Lab file (default: as pytest finds it).")
@click.option("--boots", metavar="N", type=int, help="Most boots of each board.")
@click.option("--bisect", is_flag=True, help=f"For git bisect run: {SKIP} where this build cannot be judged.")
@click.argument("pytest_args", nargs=-1, type=click.UNPROCESSED)
def gate(
    build: str, baseline: str, lab_file: str | None, boots: int | None, bisect: bool, pytest_args: tuple[str, ...]
) -> None:
    """Boot BUILD and the baseline in turn, measure both, and say whether BUILD may go in.

    BUILD is a build.yaml, a folder, a .deb, Image,modules.tar.xz or module.ko. What follows goes to pytest: test paths,
    -m, -k, --alluredir and so on.

    Exit code 0: it may go in; 1: it is slower or broken; 2: the lab broke; 3: undecided; 4: a mistake of yours. With
    --bisect 0 is good, 1 is bad, 125 skips a commit that does not apply, does not boot or gives no answer, and a
    mistake of yours ends the bisection (132).
    """
    from pytest_pinet.builds.load import load_build

    if bisect:
        try:
            load_build(build)
        except ConfigError as error:
            # A commit that does not compile leaves no image, or one that does not fit its modules.
            click.echo(f"pinet: {error}", err=True)
            sys.exit(SKIP)
    words = [f"--pinet-build={build}", f"--pinet-baseline={baseline}"]
    words += [f"--pinet-lab={lab_file}"] if lab_file is not None else []
    words += [f"--pinet-boots={boots}"] if boots is not None else []
    answer = Answer()
    status = answer.without_workers(_pytest([*words, *pytest_args], answer))
    if answer.planned and status == 0:
        sys.exit(SKIP if bisect else 0)
    sys.exit(code_of(status, answer.head, answer.refused, bisect))


class Answer:
    """A plugin that keeps what the run came to."""

    def __init__(self) -> None:
        self.head: ChangeHeadRecord | None = None
        self.refused: PinetError | None = None
        # A dry run has no answer to give.
        self.planned = False
        self._failed = False

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """``-x`` with ``-n`` ends so, too."""
        from pytest_pinet.run_keeper import after_failures

        self._failed = after_failures(excinfo)

    def without_workers(self, status: int) -> int:
        """pytest's exit code, as it is without ``-n``."""
        import pytest

        return int(pytest.ExitCode.TESTS_FAILED) if self._failed and status == pytest.ExitCode.INTERRUPTED else status

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """After everything has been written."""
        session = config.pluginmanager.get_plugin("pinet-session")
        if session is None:
            return
        self.planned = session.dry_run is not None
        record = session.keeper.record
        self.head = record.get("change") if record is not None else None
        self.refused = session.changing.refused if getattr(session, "changing", None) is not None else None


def _pytest(words: list[str], answer: Answer) -> int:
    import pytest

    # What `pinet` has imported, pytest cannot rewrite the assertions of: there are none that it would want to.
    quiet = "-Wignore:Module already imported:pytest.PytestAssertRewriteWarning"
    return int(pytest.main([quiet, *words], plugins=[answer]))


def code_of(status: int, head: ChangeHeadRecord | None, refused: PinetError | None, bisect: bool) -> int:
    """The exit code: pytest's ``status`` only tells of what kept the run from an answer.

    A board that refuses the build because the build contradicts it (a module of another kernel) is no mistake of
    whoever bisects; one that can boot no build at all is.
    """
    import pytest

    if status == pytest.ExitCode.INTERRUPTED:
        return INTERRUPTED
    if status == pytest.ExitCode.USAGE_ERROR:
        if not bisect:
            return MISTAKE
        return SKIP if isinstance(refused, ConfigError) else ABORT + MISTAKE
    if status == pytest.ExitCode.NO_TESTS_COLLECTED:
        return ABORT + MISTAKE if bisect else MISTAKE
    if status == pytest.ExitCode.INTERNAL_ERROR:
        return SKIP if bisect else LAB_ERROR
    if head is None:
        # All tests were skipped.
        return SKIP if bisect else UNDECIDED
    return head["bisect_exit"] if bisect else head["exit"]
