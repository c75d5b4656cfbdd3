"""What a trial boot of a build writes to a card, expected and real, and the sentence of a refusal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_pinet.errors import BuildError
from pytest_pinet.lab.deploy.board import ELSEWHERE, Refused
from pytest_pinet.lab.deploy.known_good import HEADER
from pytest_pinet.model.build import Build
from tests.support.boot_cards import CardOnDisk, Setup

Builds = Callable[..., Build]


def is_pi5(setup: Setup) -> bool:
    return setup.board.startswith(("pi5", "cm5"))


def expected_tryboot(setup: Setup, build: Build, kernel: str, initramfs: str | None, mode: int | None) -> str:
    """Return the text T(K, I, B): the lines that config.txt keeps, then the lines of the build."""
    kept = setup.document.get("kept_pi5") if is_pi5(setup) else None
    lines = [HEADER, *str(kept or setup.document["kept"]).splitlines(), "", "[all]"]
    lines += [f"os_prefix=pytest-pinet/{build.key}/", f"kernel={kernel}", "cmdline=cmdline.txt"]
    lines += [f"initramfs {initramfs} followkernel"] if initramfs else []
    lines += [f"arm_64bit={mode}"] if mode is not None else []
    return "\n".join([*lines, *build.config, ""])


def tryboot(disk: CardOnDisk, build: Build) -> str:
    booted = disk.booted()
    booted.check(build)
    return booted.tryboot(build, *booted.found)


def refusal(disk: CardOnDisk, build: Build) -> str:
    before = sorted(disk.folder.rglob("*"))
    with pytest.raises((Refused, BuildError)) as caught:
        disk.booted().check(build)
    assert sorted(disk.folder.rglob("*")) == before, "something was written"
    assert "\n" not in str(caught.value)
    return disk.plain(str(caught.value)).removesuffix(f"; {ELSEWHERE}")
