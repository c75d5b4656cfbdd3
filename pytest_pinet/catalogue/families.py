"""The switch families that come with the plugin, one file each."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable


def folder() -> Traversable:
    """Return the folder of their files."""
    return resources.files("pytest_pinet.catalogue").joinpath("switch_families")


def built_in() -> list[str]:
    """Return the names of the families."""
    return sorted(file.name.removesuffix(".yaml") for file in folder().iterdir() if file.name.endswith(".yaml"))
