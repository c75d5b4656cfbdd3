"""Cards of emulated boards from another release of Debian than that of this machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from pytest_pinet.emulated import image, packages
from pytest_pinet.emulated.card import copy_card, list_boot, read_boot, write_boot
from pytest_pinet.emulated.packages import Apt, PackageSource, machine_sources
from pytest_pinet.emulated.rootfs import SYSTEMD

# Files of a card that belong to one board.
_OWN = ("cmdline.txt", "pinet/*")


def card_of(release: str, report: Callable[[str], None]) -> Path:
    """Return a card image with systemd and the network managers of a release of Debian. Raises LabError."""

    def updated(report: Callable[[str], None]) -> Apt:
        apt = Apt(image.cache() / f"apt-{release}", report)
        apt.update()
        return apt

    sources = sources_of(release, machine_sources())
    # A file of its own gives the card another place in the cache.
    system = replace(SYSTEMD, files={**SYSTEMD.files, "etc/pinet-release": f"{release}\n"})
    with patch.object(image, "_updated_apt", updated), patch.object(packages, "machine_sources", lambda: sources):
        return image.card_image(report, system)


def sources_of(release: str, sources: list[PackageSource]) -> list[PackageSource]:
    """Return the same sources for another release: bookworm-updates becomes trixie-updates."""
    return list(dict.fromkeys(replace(one, release=re.sub("^[a-z]+", release, one.release)) for one in sources))


def exchange_card(card: Path, other: Path) -> None:
    """Make a board's card a copy of another card image. The board keeps its own files, and must be off."""
    own = {name: read_boot(card, name) for pattern in _OWN for name in list_boot(card, pattern)}
    draft = card.with_suffix(".draft")
    copy_card(other, draft)
    write_boot(draft, {name: data for name, data in own.items() if data is not None})
    draft.rename(card)
