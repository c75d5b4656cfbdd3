"""``pinet demo``: a first gate without hardware: pass, fail with a link that is 10 % slower, pass again."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from pytest_pinet.cli.command import INTERRUPTED, PinetCommand
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.execution.files import state_home, write_file, writing
from pytest_pinet.model.verdict import Verdict

LAB = "virtual"
INTERFACE = "pi3b-1:onboard"
RATE = 0.9
TEST = "pytest_pinet.suites.test_line_rate"
CHOSEN = "pi3b:onboard and pair-tx"
_GOOD, _SLOW = (Verdict.PASS, Verdict.MARGINAL), (Verdict.FAIL,)
# Other programs of this machine may explain the value. Links at a tenth of their rate need less of its processors.
_UNDECIDED = (Verdict.INVALID, Verdict.INCONCLUSIVE)
SMALL = "0.1"
# The verdicts that the three runs may have.
STEPS = (
    ("1 of 3: a gate of a healthy link", None, _GOOD),
    (f"2 of 3: the same gate, after {INTERFACE} became 10 % slower", "degrade", _SLOW),
    ("3 of 3: the same gate, after the link was mended", "restore", _GOOD),
)
_PINET = (sys.executable, "-c", "from pytest_pinet.cli import main; main()")
# Set in the process that runs as the root of a user namespace: the question was answered before.
_INSIDE = "PINET_DEMO_ROOTLESS"
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Traces:
    """What demos of this user left on this machine: folders, and system packages that were installed for them."""

    folders: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @classmethod
    def read(cls) -> Traces:
        try:
            found = json.loads(cls.file().read_text())
            return cls(tuple(found["folders"]), tuple(found["packages"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls()

    @staticmethod
    def file() -> Path:
        return state_home() / "pytest-pinet-demo.json"

    def write(self) -> None:
        """Keep this for `--remove`, or remove the file if nothing is left. Raises ConfigError."""
        with writing(self.file()):
            if self == Traces():
                self.file().unlink(missing_ok=True)
            else:
                write_file(self.file(), [json.dumps(asdict(self)).encode()])


@click.command(cls=PinetCommand)
@click.option("--yes", is_flag=True, help="Begin without a question.")
@click.option("--remove", is_flag=True, help="Undo everything: stop the lab, remove files and packages of demos.")
@click.option(
    "--scale",
    type=click.Choice(["auto", "1", SMALL]),
    default="auto",
    help="Share of their rate at which links run. 0.1 also works on a busy machine. auto: 0.1 on a slow machine, or if "
    "the gate does not decide.",
)
def demo(yes: bool, remove: bool, scale: str) -> None:
    """Show a gate on a virtual lab on this machine: it passes, fails when a link is 10 % slower, and passes again.

    Says first what it needs and installs, and how to undo it.

    Exit code: 0 if the gate decided right each time, else 1; 2 if the lab failed; 4 for wrong arguments.
    """
    from pytest_pinet.config.lab_path import OWN_FOLDER
    from pytest_pinet.virtual.requirements import (
        check_user_namespaces,
        install_packages,
        may_be_root,
        missing_packages,
        plan_installation,
        replace_process,
    )

    if remove:
        _remove(yes)
        return
    folder = OWN_FOLDER.absolute() / "demo"
    packages = missing_packages()
    inside = _INSIDE in os.environ
    rootless = not inside and not may_be_root()
    if rootless:
        check_user_namespaces()
        if packages:
            raise LabError(
                f"the virtual lab needs system packages, which only root can install: {' '.join(packages)}",
                f"as root: apt-get install --no-install-recommends {' '.join(packages)}",
            )
    if not inside:
        click.echo(_plan(folder, packages, rootless))
        _confirm(yes)
    if rootless:
        os.environ[_INSIDE] = "1"
        replace_process([*_PINET, "demo", "--scale", scale])
    began = time.monotonic()
    traces = Traces.read()
    traces = Traces((*{*traces.folders, str(folder)},), traces.packages)
    if packages:
        click.echo(f"installing: {' '.join(packages)}")
        # Kept before the installation, so that --remove knows them after a crash, too.
        traces = Traces(traces.folders, (*{*traces.packages, *plan_installation(packages)},))
        traces.write()
        install_packages()
        began = time.monotonic()
    traces.write()
    verdicts = _run(folder, scale)
    if scale != SMALL and verdicts[-1] in _UNDECIDED:
        click.echo(
            "pinet demo: other programs keep this machine busy, so the gate did not decide. All steps run again with "
            "links at a tenth of their rate (--scale 0.1), which leaves processors for these programs."
        )
        verdicts = _run(folder, SMALL)
    right = len(verdicts) == len(STEPS) and all(
        verdict in expected for verdict, (_, _, expected) in zip(verdicts, STEPS, strict=True)
    )
    click.echo(f"report: {folder / 'report.html'}")
    click.echo(f"This took {time.monotonic() - began:.0f} s. The lab is stopped. To undo the rest: pinet demo --remove")
    click.echo("Next: pinet init pi@ADDRESS writes a lab file for your own board.")
    if not right:
        sys.exit(1)


def _plan(folder: Path, packages: Sequence[str], rootless: bool) -> str:
    if os.geteuid() == 0:
        root = "this user is root"
    else:
        root = "this user becomes root of a user namespace" if rootless else "by `sudo -n`"
    installs = (
        f"with apt-get: {' '.join(packages)}; starts no service" if packages else "nothing; all packages are there"
    )
    return (
        "pinet demo: a gate on a virtual lab on this machine, in one to two minutes\n"
        f"  needs     root for network namespaces: {root}\n"
        f"  installs  {installs}\n"
        f"  writes    {folder}{' (in place of the demo before)' if folder.exists() else ''}, {Traces.file()}\n"
        "  undo      pinet demo --remove"
    )


def _confirm(yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("this is no terminal, so there is no answer to a question: pass --yes")
    click.confirm("Begin?", default=True, abort=True)


def _run(folder: Path, scale: str) -> list[str]:
    """Run the gate three times, and return its verdicts. It ends early without a decision.

    The lab is stopped, however this ends.
    """
    from pytest_pinet.config.lab_path import lab_path
    from pytest_pinet.config.labfile import load
    from pytest_pinet.virtual.launcher import launcher
    from pytest_pinet.virtual.runtime import Runtime

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / ".gitignore").write_text("*\n")
    lab = str(folder / "lab.yaml")
    Path(lab).write_text(re.sub(r"(?m)^  scale: auto\b", f"  scale: {scale}", Path(lab_path(LAB)).read_text()))
    (folder / "pytest.ini").write_text("[pytest]\n")
    verdicts: list[str] = []
    stopped = False
    try:
        use = launcher().use(load(lab), f"demo-{os.getpid()}", lambda: click.echo("starting the virtual lab"))
        try:
            click.echo(f"$ cd {folder}")
            for title, change, expected in STEPS:
                click.secho(f"\n{title}", bold=True)
                if change is not None:
                    faults = {"rate": RATE} if change == "degrade" else {}
                    click.echo(f"$ pinet lab {change} {INTERFACE}" + (f" --rate {RATE}" if faults else ""))
                    Runtime.of(lab).ask(change, target=INTERFACE, **faults)
                verdicts.append(_pytest(folder))
                if verdicts[-1] in _UNDECIDED and scale != SMALL:
                    break
                if verdicts[-1] not in expected:
                    click.echo(_unexpected(verdicts[-1], expected[0]), err=True)
            _child([*_PINET, "report", "--page", "-o", "report.html", "--history", "history.db"], folder)
        finally:
            use.leave()
            stopped = True
    except KeyboardInterrupt:
        # After a second Ctrl-C the lab notices by itself that its user is gone.
        lab = "is stopped" if stopped else "stops within 20 s"
        click.echo(f"\ninterrupted; the lab {lab}. To undo the rest: pinet demo --remove", err=True)
        sys.exit(INTERRUPTED)
    return verdicts


def _unexpected(verdict: str, expected: Verdict) -> str:
    text = f"pinet demo: expected the verdict {expected}, got {verdict}"
    if verdict in _UNDECIDED:
        return (
            f"{text}: other programs disturbed the connections, and the gate blames no link for that. Its text above "
            "names the programs. End them, then try again"
        )
    return f"{text}: its text above says why"


def _pytest(folder: Path) -> str:
    """Run the gate. Return its verdict."""
    from pytest_pinet.report.text_wrap import wrap_command

    words = ["--pyargs", TEST, "-k", CHOSEN, "--pinet-lab=lab.yaml"]
    for line in wrap_command(f"$ {shlex.join(['pytest', *words])}", "", "    "):
        click.echo(line)
    own = ["-c", "pytest.ini", "-p", "no:cacheprovider", "--no-header", "--pinet-history=history.db"]
    latest = folder / ".pinet" / "latest"
    latest.unlink(missing_ok=True)
    _child([sys.executable, "-m", "pytest", *own, *words], folder)
    try:
        (result,) = json.loads((latest / "results.json").read_text())["results"]
    except (OSError, ValueError):
        return "no result"
    return str(result["verdict"])


def _child(argv: Sequence[str], folder: Path) -> int:
    """Run a command with our input and output. It is interrupted when this process dies."""
    libc = ctypes.CDLL(None)
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("PINET_", "PYTEST_", "LG_"))}
    # The journals of switch ports are in the demo's folder, too, so that it leaves no other.
    clean["XDG_STATE_HOME"] = str(folder / "state")
    child = subprocess.Popen(
        argv, cwd=folder, env=clean, preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGINT))
    )
    try:
        return child.wait()
    except KeyboardInterrupt:
        # Ctrl-C also reached the child, which undoes its changes now.
        child.wait()
        raise


def _remove(yes: bool) -> None:
    """Undo all demos of this user. What could not be undone stays known."""
    from pytest_pinet.report.text_wrap import count
    from pytest_pinet.virtual.launcher import stop
    from pytest_pinet.virtual.requirements import remove_packages

    traces = Traces.read()
    if traces == Traces():
        click.echo("no demo of this user left anything")
        return
    for folder in traces.folders:
        click.echo(f"removes the folder {folder}")
    if traces.packages:
        click.echo(f"removes the system packages that were installed for demos: {' '.join(traces.packages)}")
    _confirm(yes)
    for folder in traces.folders:
        stop(str(Path(folder) / "lab.yaml"))
        shutil.rmtree(folder, ignore_errors=True)
        if Path(folder).exists():
            raise LabError(f"{folder} cannot be removed", "remove it as root")
        # The folder .pinet stays if runs of the user are in it.
        with suppress(OSError):
            Path(folder).parent.rmdir()
    Traces((), traces.packages).write()
    removed = remove_packages(traces.packages)
    Traces().write()
    click.echo(f"removed: {count(len(traces.folders), 'folder')}, {count(len(removed), 'system package')}")
