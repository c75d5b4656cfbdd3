"""Commands of a machine: what messages show of them, root rights, the end of a program."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pytest_pinet.errors import LabError
from pytest_pinet.execution.shell import (
    Completed,
    as_root,
    last_line,
    output,
    own_lines,
    reason,
    refused_root,
    still_runs,
)


def test_root_runs_it_itself_with_the_quoting_kept() -> None:
    done = subprocess.run(["sh", "-c", as_root('echo "it\'s $(id -u)"; exit 3')], capture_output=True, text=True)
    if subprocess.run(["id", "-u"], capture_output=True, text=True).stdout.strip() != "0":
        pytest.skip("needs root")
    assert (done.returncode, done.stdout) == (3, "it's 0\n")


def test_another_user_goes_through_sudo(tmp_path: Path) -> None:
    for name, script in (("id", "echo 1000"), ("sudo", 'echo "sudo $*"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", as_root("ip link set eth0 up")],
        capture_output=True,
        text=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    assert done.stdout == "sudo -n sh -c PATH=$PATH:/usr/sbin:/sbin; ip link set eth0 up\n"


@pytest.mark.parametrize(
    "line",
    [
        # sudo 1.9.13
        "sudo: a password is required",
        "sudo: a terminal is required to read the password; either use the -S option to read from standard input",
        "sudo: sorry, you must have a tty to run sudo",
        "pi is not in the sudoers file.",
        "Sorry, user pi is not allowed to execute '/bin/sh -c true' as root on pi4b-1.",
        # dash, bash
        "sh: 1: sudo: not found",
        "bash: line 1: sudo: command not found",
    ],
)
def test_a_refusal_of_sudo_is_told_from_a_failure_of_the_command(line: str) -> None:
    assert refused_root(Completed(1, "", f"{line}\n")) == line
    assert refused_root(Completed(0, "", f"{line}\n")) is None
    warning = "sudo: unable to resolve host pi4b-1: Name or service not known\nRTNETLINK answers: File exists\n"
    assert refused_root(Completed(2, "", warning)) is None


def test_a_command_that_does_not_end_is_named_in_few_words() -> None:
    assert str(still_runs("iperf3 -c 192.0.2.2", "pi-1", 30.4)) == "`iperf3 -c 192.0.2.2` still runs on pi-1 after 30 s"
    long = str(still_runs("set -e\nfor i in 1 2 3; do\n  echo $i; done; sleep 1; sleep 2; sleep 3", "pi-1", 5))
    assert long == "`set -e for i in 1 2 3; do echo $i; done; sleep 1; sleep 2; ...` still runs on pi-1 after 5 s"
    assert f"`{'/folder' * 10}/qemu ...` still" in str(still_runs(f"{'/folder' * 10}/qemu --version", "pi-1", 5))


SYSTEM = """\
bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)
-bash: line 1: warning: setlocale: LC_CTYPE: cannot change locale (UTF-8): No such file or directory
ERROR: ld.so: object '/usr/lib/arm-linux-gnueabihf/libarmmem-${PLATFORM}.so' from /etc/ld.so.preload cannot be preloaded (cannot open shared object file): ignored.
ERROR: ld.so: object 'libx.so' from LD_PRELOAD cannot be preloaded (wrong ELF class: ELFCLASS32): ignored.
perl: warning: Setting locale failed.
perl: warning: Please check that your locale settings:
\tLANGUAGE = (unset),
\tLC_ALL = (unset),
\tLC_TIME = "de_DE.UTF-8",
\tLANG = "en_US.UTF-8"
    are supported and installed on your system.
perl: warning: Falling back to the standard locale ("C").
sudo: unable to resolve host raspberrypi: Name or service not known
"""  # noqa: E501


def test_lines_that_the_system_adds_say_nothing_about_a_command() -> None:
    assert own_lines(SYSTEM) == []
    assert last_line(SYSTEM, "netlink error: Operation not supported\n") == "netlink error: Operation not supported"
    refused = f"{SYSTEM}tee: /sys/x: Invalid argument\n{SYSTEM}"
    assert last_line(refused) == "tee: /sys/x: Invalid argument"
    assert reason(refused) == "Invalid argument"
    assert reason(SYSTEM, "") == "no reason given"


def test_the_line_of_the_loader_of_this_machine_is_known() -> None:
    environment = {**os.environ, "LD_PRELOAD": "/nonexistent/libarmmem.so"}
    done = subprocess.run(["ls", "/nonexistent"], capture_output=True, text=True, env=environment)
    assert len(done.stderr.splitlines()) == 2
    assert reason(done.stderr) == "No such file or directory"


def test_the_answer_is_in_english_and_has_the_environment() -> None:
    text = output(["sh", "-c", "echo $LC_ALL $MORE"], 5.0, {"MORE": "more"})
    assert text == "C.UTF-8 more\n"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["sh", "-c", "echo first; echo 'no module' >&2; exit 3"], "failed with exit code 3: no module\n  -> do this"),
        (["sh", "-c", "exit 3"], "`sh -c exit 3` failed with exit code 3: no message\n  -> do this"),
        (["sh", "-c", "sleep 5", *["word"] * 20], f"`sh -c sleep 5{' word' * 9} ...` did not end within 0.05 s"),
        (["/none"], "/none cannot be started: No such file or directory"),
    ],
)
def test_a_failure_is_one_sentence(argv: list[str], message: str) -> None:
    with pytest.raises(LabError) as raised:
        output(argv, 0.05 if "sleep 5" in argv else 5.0, act="do this")
    assert str(raised.value).endswith(message)
