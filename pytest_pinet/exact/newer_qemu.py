"""Unpacks a newer QEMU from Debian's backports beside the installed one, without root."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from pytest_pinet.emulated.image import locked
from pytest_pinet.emulated.packages import Apt, machine_sources
from pytest_pinet.errors import LabError
from pytest_pinet.exact.qemu import PROGRAM, qemu_at, unpacked_folder
from pytest_pinet.exact.store import exact_cache
from pytest_pinet.execution.tool import output

_PACKAGES = ("qemu-system-arm", "qemu-system-common", "qemu-system-data")
UNPACK_S = 300.0


def unpack_newer_qemu(report: Callable[[str], None]) -> Path:
    """Return the folder of a QEMU from Debian's backports. It uses the installed libraries. Raises LabError."""
    folder = unpacked_folder()
    with locked(exact_cache(), report):
        apt = Apt(exact_cache() / "apt", report, _machine_architecture())
        apt.update()
        backports = f"{machine_sources()[0].release.partition('-')[0]}-backports"
        packages = [apt.fetch(f"{name}/{backports}") for name in _PACKAGES]
        draft = folder.with_suffix(".draft")
        shutil.rmtree(draft, ignore_errors=True)
        try:
            for package in packages:
                report(f"unpacking {package.name}")
                _run("dpkg-deb", "-x", str(package), str(draft))
            qemu = qemu_at(draft, "the package")
            shutil.rmtree(folder, ignore_errors=True)
            draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        for package in packages:
            package.unlink()
    report(f"QEMU {qemu.version_text}")
    return folder / "usr" / "bin" / PROGRAM


def _machine_architecture() -> str:
    return _run("dpkg", "--print-architecture").strip()


def _run(*argv: str) -> str:
    if shutil.which(argv[0]) is None:
        raise LabError(f"this machine has no command {argv[0]}", "run this command on a Debian machine")
    return output(argv, UNPACK_S)
