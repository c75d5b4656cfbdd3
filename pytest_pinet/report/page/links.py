"""Links from the page to the files of a run and to the commit of a build."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from pytest_pinet.execution.path_kind import exists, is_file

# ``-g1a2b3c4d5e6f`` or ``+g1a2b3c4``, as scripts/setlocalversion and git describe write it.
_COMMIT = re.compile(r"(?:^|[-+.])g([0-9a-f]{7,40})(?![0-9a-z])")


@dataclass
class PageLinks:
    """``base`` is the folder of the page (None: the page has no links to files), ``commits`` the URL of a commit.

    ``commits`` has ``{commit}`` in the place of its hash.
    """

    base: Path | None = None
    commits: str = ""
    _known: dict[str, str] = field(default_factory=dict)

    def folder(self, folder: str) -> str:
        """Return the address of a run folder; empty if it is not on this machine (any more)."""
        if folder not in self._known:
            there = bool(folder) and self.base is not None and is_file(Path(folder, "results.json"))
            self._known[folder] = quote(os.path.relpath(folder, self.base)) if there else ""
        return self._known[folder]

    def file(self, folder: str, name: str) -> str:
        """Return the address of a file of a run folder; empty if it is not on this machine (any more)."""
        here = self.folder(folder)
        return f"{here}/{quote(name)}" if here and exists(Path(folder, name)) else ""

    def commit(self, build: Mapping[str, str | None]) -> tuple[str, str]:
        """Return the commit of a build and its address; empty if one of them is not known."""
        found = build.get("commit") or next((m[1] for m in map(_COMMIT.search, filter(None, build.values())) if m), "")
        return (found, self.commits.replace("{commit}", found)) if found and self.commits else ("", "")
