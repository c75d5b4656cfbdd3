"""Packages and cards of emulated boards from another release of Debian than that of this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from pytest_pinet.emulated import image, packages
from pytest_pinet.emulated.packages import Apt, PackageSource, machine_sources
from pytest_pinet.emulated.rootfs import System


@contextmanager
def packages_of(release: str) -> Iterator[None]:
    """Make this process take its Debian packages from a release. Raises LabError."""

    def updated(report: image.Report) -> Apt:
        apt = Apt(image.cache() / f"apt-{release}", report)
        apt.update()
        return apt

    sources = sources_of(release, machine_sources())
    with patch.object(image, "_updated_apt", updated), patch.object(packages, "machine_sources", lambda: sources):
        yield


def card_of(release: str, report: image.Report, system: System) -> Path:
    """Return the card image of a system with the packages of a release. Raises LabError."""
    # A file of its own gives the card another place in the cache.
    system = replace(system, files={**system.files, "etc/pinet-release": f"{release}\n"})
    with packages_of(release):
        return image.card_image(report, system)


def sources_of(release: str, sources: list[PackageSource]) -> list[PackageSource]:
    """Return the same sources for another release: bookworm-updates becomes trixie-updates."""
    return list(dict.fromkeys(replace(one, release=re.sub("^[a-z]+", release, one.release)) for one in sources))
