"""Words and links for where the kernel of a build comes from."""

from __future__ import annotations

import re

from pytest_pinet.execution.names import is_url
from pytest_pinet.model.build import BuildSource

_SHORT = 12
_KERNEL_ORG = re.compile(r"(?:https|git)://git\.kernel\.org/")
_GITHUB = re.compile(r"https://(?:www\.)?github\.com/")


def kernel_words(source: BuildSource | None) -> str:
    """Return the short name of the source for a line of text: ``v6.12.25-rc1-3-g1f2e3d4c5d6e (1f2e3d4c5d6e)``."""
    if source is None:
        return ""
    commit = source.commit[:_SHORT]
    if source.describe and commit:
        return source.describe if commit in source.describe else f"{source.describe} ({commit})"
    return source.describe or (f"commit {commit}" if commit else "")


def commit_url(source: BuildSource) -> str:
    """Return the page of the commit on the web; empty if its server is not known."""
    tree = source.tree.rstrip("/")
    if not source.commit:
        return ""
    if _KERNEL_ORG.match(tree):
        return f"https://{tree.partition('://')[2]}/commit/?id={source.commit}"
    if _GITHUB.match(tree):
        return f"{tree.removesuffix('.git')}/commit/{source.commit}"
    if tree.startswith("https://") and "gitlab" in tree:
        return f"{tree.removesuffix('.git')}/-/commit/{source.commit}"
    return ""


def source_lines(source: BuildSource, folder: str = "") -> list[tuple[str, str]]:
    """Return lines on the source, each with the address that it links to, or none.

    ``folder`` is the address of the run folder.
    """
    lines = []
    if words := kernel_words(source):
        branch = f", branch {source.branch}" if source.branch else ""
        tree = f" of {source.tree}" if source.tree else ""
        lines.append((f"source: {words}{branch}{tree}", commit_url(source)))
    if source.made_by:
        compiler = f" with {source.compiler}" if source.compiler else ""
        lines.append(
            (f"built by {source.made_by}{compiler}: {source.place}", source.place if is_url(source.place) else "")
        )
    if source.config:
        lines.append((f"kernel configuration: {source.config}", f"{folder}/{source.config}" if folder else ""))
    return lines
