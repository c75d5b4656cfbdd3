"""Options of modules of the board are compared with what modinfo, the module's file and /sys say about them."""

from __future__ import annotations

import lzma
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.lab.deploy.live import Live
from pytest_pinet.model.build import Build
from tests.support import build_files as made
from tests.support.local_shell import LocalShell

# The file of nf_conntrack has the name of "hashsize", but no type and no description.
FILE = made.module("pinet_test", parameters=()) + b"\xff\xfe\0hashsize\0"
KMOD = """#!/bin/sh
case "$2" in filename) echo {file} ;; parmtype) echo quiet:bool ;; parm) echo "quirks:a list (see: docs)" ;; esac
"""


def check(folder: Path, parameter: str, modinfo: str | None) -> None:
    if modinfo is not None:
        (folder / "modinfo").write_text(modinfo)
        (folder / "modinfo").chmod(0o755)
    board: Any = SimpleNamespace(name="pi", shell=LocalShell("pi", {"PATH": f"{folder}:{os.environ['PATH']}"}))
    Live(board).check_options(Build("new", options=(("pinet_test", parameter, "1"),)))


@pytest.mark.parametrize("ending", ["ko", "ko.xz"])
def test_a_parameter_that_modinfo_or_the_file_has_is_accepted(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"pinet_test.{ending}"
    file.write_bytes(lzma.compress(FILE) if ending == "ko.xz" else FILE)
    modinfo = KMOD.format(file=file)
    for parameter in ("quiet", "quirks", "hashsize", "dyndbg"):
        check(tmp_path, parameter, modinfo)
    for parameter in ("hashsiz", "ashsize", "other"):
        with pytest.raises(ConfigError, match=rf"pinet_test has no parameter '{parameter}'; accepted: quiet, quirks$"):
            check(tmp_path, parameter, modinfo)


def test_of_code_that_is_built_in_only_a_misspelled_parameter_is_refused(tmp_path: Path) -> None:
    check(tmp_path, "devkmsg", KMOD.format(file="'(builtin)'"))
    with pytest.raises(ConfigError, match=r"has no parameter 'quiett'; accepted: quiet, quirks$"):
        check(tmp_path, "quiett", KMOD.format(file="'(builtin)'"))


# busybox 1.36 prints nothing and ends with 0 for a module that it does not find.
@pytest.mark.parametrize("modinfo", ["#!/bin/sh\n", "#!/bin/sh\nexit 127\n"])
def test_without_an_answer_of_modinfo_each_parameter_is_accepted(tmp_path: Path, modinfo: str) -> None:
    check(tmp_path, "other", modinfo)
