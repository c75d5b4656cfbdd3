"""Completion in real shells: commands, options, and names of the lab file, without an import of labgrid."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_pinet.cli.options import SHELLS

PROGRAM = """\
#!{python}
import sys
from pytest_pinet.cli import main
try:
    main()
finally:
    if "labgrid" in sys.modules or "pytest" in sys.modules:
        print("plain,IMPORTS-TOO-MUCH")
"""
# Prints the completions of the line in $LINE.
BASH = """\
eval "$(pinet completion bash)"
COMP_LINE="$LINE" COMP_POINT=${#LINE} COMP_TYPE=9
compopt() { :; }
_pinet_completion pinet
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = 'pinet completion fish | source; complete --do-complete "$LINE"'
ZSH = """\
autoload -Uz compinit && compinit -u -D
eval "$(pinet completion zsh)"
compadd() { print -l -- "${(@P)@[-1]}" }
_describe() { print -l -- "${(@P)3%%:*}" }
words=("${(z)LINE}")
[[ $LINE == *' ' ]] && words+=("")
CURRENT=${#words}
_pinet_completion
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which ``pinet`` is this checkout."""
    program = tmp_path / "bin" / "pinet"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(0o755)
    root = str(Path(__file__).parents[3])
    path = f"{program.parent}:{os.environ['PATH']}"
    found = {**os.environ, "PATH": path, "PYTHONPATH": root, "HOME": str(tmp_path), "TERM": "dumb"}
    found.pop("PINET_LAB", None)
    return found


def complete(environment: dict[str, str], line: str, *shell: str) -> list[str]:
    done = subprocess.run(
        shell, env={**environment, "LINE": line}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def in_bash(environment: dict[str, str], line: str) -> list[str]:
    return complete(environment, line, "bash", "--norc", "-c", BASH)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pinet gr", ["graph"]),
        ("pinet lab de", ["degrade"]),
        ("pinet doctor --try", ["--tryboot"]),
        ("pinet matrix --board pi4", ["pi4b"]),
        ("pinet matrix --nic rtl81", ["rtl8153"]),
        ("pinet graph --lab virtual pi5", ["pi5:onboard/pair"]),
        # bash replaces only what follows the ":" or the "=".
        ("pinet graph pi4b:onboard/pa", ["onboard/pair", "onboard/pairs:3"]),
        ("pinet graph --lab=virtual-", ["virtual-linux"]),
        ("pinet lab degrade pi4b-1:u", ["usb"]),
        ("pinet matrix --lab no-such-lab --board p", []),
        # The settings of a run.
        ("pinet gate new --boo", ["--boots"]),
        ("pinet gate new --lab=virtual --board cm", ["cm4"]),
        ("pinet gate new --profile=st", ["standard"]),
        ("pinet config --confirm link", ["link-up"]),
    ],
)
def test_bash(environment: dict[str, str], line: str, expected: list[str]) -> None:
    found = [word for word in in_bash(environment, line) if word]
    assert "IMPORTS-TOO-MUCH" not in found
    assert found[: len(expected)] == expected if expected else found == []


def test_bash_completes_in_a_terminal(environment: dict[str, str]) -> None:
    """The whole way: an interactive bash, the Tab key, and the line that results."""
    pexpect = pytest.importorskip("pexpect")
    shell = pexpect.spawn("bash", ["--norc"], env={**environment, "PS1": "ready> "}, encoding="utf-8", timeout=30)
    try:
        shell.expect_exact("ready> ")
        shell.sendline('eval "$(pinet completion bash)"; bind "set enable-bracketed-paste off"; echo set-up')
        shell.expect_exact("set-up\r\n")
        shell.send("echo pinet; pinet matrix --board=cm")
        shell.send("\t")
        shell.expect_exact("--board=cm4")
        shell.sendcontrol("c")
    finally:
        shell.close(force=True)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish(environment: dict[str, str]) -> None:
    found = complete(environment, "pinet graph pi4b:onboard/pa", "fish", "--no-config", "-c", FISH)
    assert found == ["pi4b:onboard/pair", "pi4b:onboard/pairs:3"]
    assert complete(environment, "pinet gr", "fish", "--no-config", "-c", FISH)[0].startswith("graph")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh(environment: dict[str, str]) -> None:
    found = complete(environment, "pinet graph pi4b:onboard/pa", "zsh", "-f", "-c", ZSH)
    assert found == ["pi4b:onboard/pair", "pi4b:onboard/pairs:3"]


# `make slow` installs the other shells.
@pytest.mark.parametrize(
    "shell", [pytest.param(shell, marks=() if shell == "bash" else pytest.mark.slow) for shell in SHELLS]
)
def test_each_shell_accepts_its_script(environment: dict[str, str], shell: str) -> None:
    script = subprocess.run(
        ["pinet", "completion", shell], env=environment, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert "_pinet_completion" in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n"], input=script, text=True, env=environment, timeout=60, check=True)
