"""Reads the files of the catalogue: boards, NICs, and the families of switches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import yaml
from pydantic import TypeAdapter

from pytest_pinet.model.hardware import Board, Hardware, Nic


@cache
def load() -> Hardware:
    """Return the boards and NICs of the catalogue. They are read once."""
    read_nic, read_board = TypeAdapter(Nic).validate_python, TypeAdapter(Board).validate_python
    nics = {}
    for name, entry in written("nics").items():
        nic = read_nic({key: value for key, value in entry.items() if key != "ids"})
        nics[name] = replace(nic, name=name, ids=tuple(entry.get("ids", ())))
    known = Hardware({}, nics)
    boards = {name: replace(read_board(entry, context=known), name=name) for name, entry in written("boards").items()}
    return Hardware(boards, nics)


@cache
def written(kind: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the entries of the catalogue as its file has them. ``kind`` is ``boards`` or ``nics``."""
    entries = read_data(f"{kind}.yaml")
    return (
        {name: {"model": entry["title"], **entry} for name, entry in entries.items()} if kind == "boards" else entries
    )


def read_data(file: str) -> Any:
    """Return the content of a YAML file of this package."""
    text = resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def folder() -> Traversable:
    """Return the folder of their files."""
    return resources.files("pytest_pinet.catalogue").joinpath("switch_families")


def built_in() -> list[str]:
    """Return the names of the families."""
    return sorted(file.name.removesuffix(".yaml") for file in folder().iterdir() if file.name.endswith(".yaml"))
