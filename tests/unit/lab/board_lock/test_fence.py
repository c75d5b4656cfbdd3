"""The start of a command line that compares the owner of the lock, as real shells run it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_pinet.lab.board_lock.agent import FOLDER, RUN, fence, refusal
from pytest_pinet.lab.deploy.board import LOCK, locked

ANN, BOB = (f"{name}/pinet-main-1-1-0123abcd-0 1700000000 {name}" for name in ("ann", "bob"))


@pytest.mark.parametrize("shell", [("sh",), ("busybox", "sh")], ids=["sh", "busybox"])
@pytest.mark.parametrize(
    ("files", "goes_on"),
    [
        pytest.param({"var/lock": ANN}, True, id="ours"),
        pytest.param({"run/lock": ANN}, True, id="ours-on-a-read-only-card"),
        pytest.param({}, True, id="lost-by-a-crash-of-the-board"),
        pytest.param({"var/lock": ""}, True, id="empty-after-a-crash-of-the-board"),
        pytest.param({"var/lock": BOB}, False, id="of-another"),
        pytest.param({"var/lock": ANN, "run/gone": ANN}, False, id="removed-by-others"),
        pytest.param({"run/gone": ANN}, False, id="removed-and-given-back"),
        pytest.param({"var/lock": ANN, "run/lock": BOB, "run/gone": ANN}, False, id="of-another-on-a-read-only-card"),
    ],
)
def test_a_command_goes_on_only_for_the_owner(
    tmp_path: Path, shell: tuple[str, ...], files: dict[str, str], goes_on: bool
) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"{shell[0]} is not installed")
    for folder in ("var", "run"):
        (tmp_path / folder).mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n" if text else "")
    own = fence(ANN).replace(FOLDER, f"{tmp_path}/var").replace(RUN, f"{tmp_path}/run")
    for command in (f"{own}echo written; exit 3", locked("echo written; exit 3", own).replace(LOCK, f"{tmp_path}/m")):
        done = subprocess.run([*shell, "-c", command], capture_output=True, text=True, check=False)
        lost = refusal("pi1", done.returncode, done.stderr)
        assert (done.stdout, lost is None) == (("written\n", True) if goes_on else ("", False)), done.stderr
        if lost is not None:
            by = "is held by bob (bob/pinet-" if BOB in files.values() else "no user holds it now"
            assert lost.message.startswith("the lock on pi1 was lost during the test, and " + by)


def test_a_command_that_fails_by_itself_is_no_refusal() -> None:
    assert refusal("pi1", 87, "make: *** [all] Error 87\n") is None
    assert refusal("pi1", 1, "pinet-lease: held by ann/x 1 ann\n") is None
