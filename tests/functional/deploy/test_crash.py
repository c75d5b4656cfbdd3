"""A process is killed at any point of a deployment: the next one recovers by itself, and the known-good build boots."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_pinet.errors import SshError
from pytest_pinet.lab.deploy.recovery import put_back
from tests.support import build_files as made
from tests.support.card_board import KNOWN_VERSION, CardBoard, card_board

ROOT = Path(__file__).parents[3]
# One kill per step. tests/soak kills a real pytest at ten points.
KILLS = 7
SEED = 6


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CardBoard]:
    """Yield a board that boots whenever a command on it calls ``reboot``."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with card_board(tmp_path / "card") as found:
        over = threading.Event()

        def run() -> None:
            while not over.wait(0.02):
                found.obey()

        hardware = threading.Thread(target=run)
        hardware.start()
        yield found
        over.set()
        hardware.join()


@dataclass(frozen=True)
class Told:
    """A command of a deployment: its step, and its duration."""

    step: str
    command: str
    seconds: float


def start(board: CardBoard, *builds: Path) -> subprocess.Popen[str]:
    module = [sys.executable, "-m", "tests.support.card_deploy_process"]
    client = [*module, str(board.folder), str(board.port), *map(str, builds)]
    return subprocess.Popen(client, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def watch(process: subprocess.Popen[str]) -> list[Told]:
    """Return all commands that the process prints until it ends."""
    assert process.stdout is not None
    with process.stdout:
        lines = [(time.monotonic(), line) for line in process.stdout]
    ends = [at for at, _ in lines[1:]] + [time.monotonic()]
    parts = [line.rstrip().partition("\t") for _, line in lines]
    return [Told(step, text, end - at) for (step, _, text), (at, _), end in zip(parts, lines, ends, strict=True)]


def kill_at(process: subprocess.Popen[str], number: int, after_s: float) -> None:
    """Kill the process ``after_s`` after it has announced its ``number``-th command."""
    assert process.stdout is not None
    with process.stdout:
        for _ in range(number + 1):
            assert process.stdout.readline(), "it ended before"
        time.sleep(after_s)
        process.kill()
        process.wait()


def log_in(board: CardBoard) -> tuple[str, ...]:
    """Put back the board as its next user does. Return the messages to the user."""

    board.wait()
    try:
        left = put_back(board.shell)
    except SshError:
        # The boot that the killed process requested happens in between.
        board.power_cycle()
        left = put_back(board.shell)
    if left.build:
        board.power_cycle()
    return tuple(left.sentences(board.name))


@pytest.mark.slow
def test_killed_at_a_random_point_of_each_step(board: CardBoard, tmp_path: Path) -> None:
    builds = []
    # Both have the same release, so they also use the same module folder alternately.
    for name in ("a", "b"):
        made.write(tmp_path / name, {"Image": made.image(size=8_000_000)})
        made.write(tmp_path / name, made.tree(made.RELEASE, e1000e=made.module("e1000e", srcversion=name)))
        (tmp_path / name / "build.yaml").write_text("kernel: Image\nmodules: .\ncmdline: quiet\n")
        builds.append(tmp_path / name)
    before = board.files()
    # The proof of a trial boot, which a machine makes once, is not one of the steps.
    proof = start(board, builds[0])
    watch(proof)
    assert proof.wait(60) == 0
    board.power_cycle()
    whole = start(board, *builds)
    seen = watch(whole)
    assert whole.wait(60) == 0
    log_in(board)
    board.power_cycle()
    assert board.files() == before
    steps = list(dict.fromkeys(one.step for one in seen))
    assert steps == [
        "look", "deploy build a to pi4b-1", "boot build a on pi4b-1",
        "boot the known-good build on pi4b-1", "deploy build b to pi4b-1", "boot build b on pi4b-1",
        "take back all of them",
    ]  # fmt: skip
    choice = random.Random(SEED)
    removed: list[str] = []
    for kill in range(KILLS):
        # All steps in turn; in a step any command, at any moment.
        step = steps[kill % len(steps)]
        number = choice.choice([place for place, one in enumerate(seen) if one.step == step])
        after_s = seen[number].seconds * choice.random()
        kill_at(start(board, *builds), number, after_s)
        kept = board.files()
        assert {name: kept.get(name) for name in before} == before, "the known-good build was touched"
        lines = log_in(board)
        removed += lines
        print(f"{step}: {after_s:.2f} s after ...{seen[number].command[-120:]}: {' '.join(lines) or 'found nothing'}")  # noqa: T201
        # A boot requested before the kill may still happen. It finds only the known-good build.
        board.power_cycle()
        assert board.shell.run("cat /proc/version").stdout.strip() == KNOWN_VERSION
        assert board.files() == before
    assert any("booted the known-good build" in line for line in removed)


# The steps of the proof on the board, and a part of the command of each.
PROOF = {
    "the undo is written to the journal": "> /boot/firmware/pytest-pinet/journal/",
    "the copy is uploaded": "tar -xof - -C /boot/firmware/pytest-pinet/",
    "the copy gets its name": "&& mv /boot/firmware/pytest-pinet/",
    "tryboot.txt is written": "mv tryboot.txt.pytest-pinet.new tryboot.txt",
    "the trial boot is requested": "vcmailbox 0x00038064 4 0 1",
    "the copy boots": r"\[ ! -d /boot/firmware/pytest-pinet/\w+ \] \|\| reboot",
    "what runs is read": "cat /proc/version",
    "the known-good build boots": "; true; reboot;",
    "the copy is removed": r"\{ rm -rf /boot/firmware/pytest-pinet/\w+ && sync",
}


@pytest.mark.slow
@pytest.mark.parametrize("step", PROOF)
def test_killed_at_each_step_of_the_proof_of_a_trial_boot(board: CardBoard, tmp_path: Path, step: str) -> None:
    (tmp_path / "build.yaml").write_text("name: a\ncmdline: quiet\n")
    before = board.files()
    process = start(board, tmp_path / "build.yaml")
    assert process.stdout is not None
    with process.stdout:
        begun = itertools.dropwhile(lambda line: not line.startswith("prove that pi4b-1 can boot"), process.stdout)
        proof = itertools.takewhile(lambda line: not line.startswith("deploy build a"), begun)
        assert any(re.search(PROOF[step], line) for line in proof), f"no command for: {step}"
        # The command has just been announced. It runs to its end on the board, or has not begun.
        time.sleep(random.Random(step).random() * 0.3)
        process.kill()
        process.wait()
    log_in(board)
    # A boot that was requested before the kill may still happen.
    board.power_cycle()
    log_in(board)
    assert board.shell.run("cat /proc/version").stdout.strip() == KNOWN_VERSION
    assert "pinet.build=" not in board.shell.run("cat /proc/cmdline").stdout
    assert board.files() == before
    assert not (board.folder / "tryboot").exists(), "the request for a trial boot is still set"
    # The next run proves the boot again, and gets on.
    whole = start(board, tmp_path / "build.yaml")
    watch(whole)
    assert whole.wait(60) == 0
    board.power_cycle()
    assert board.files() == before
