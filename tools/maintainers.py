"""Writes the shipped table of maintainers: ``python -m tools.maintainers LINUX-TREE YYYY-MM-DD``.

The date is that of the tree: of its newest commit, or of its release.
"""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

import yaml

from pytest_pinet.builds.kernel_tree import KernelTree
from pytest_pinet.catalogue import load
from pytest_pinet.catalogue import maintainers as catalogue

# Drivers of NICs that the emulated lab and the boards of our users have, beside the drivers of the catalogue.
MORE = ("asix", "cdc_ether", "cdc_ncm", "e1000", "e1000e", "igc", "stmmac", "virtio_net")
TABLE = Path(catalogue.__file__).with_name(catalogue.FILE)


def main(tree: str, day: str) -> None:
    """Write the table."""
    kernel = KernelTree(Path(tree))
    source = f"{kernel.source}, {date.fromisoformat(day)}"
    names = {nic.driver for nic in load().nics.values() if " " not in nic.driver} | {*MORE}
    owners = {name: kernel.owner(name) for name in sorted(names)}
    drivers = {
        name: {
            "file": owner.file,
            "contacts": [f"{one.address} ({one.role}{f':{one.entry}' * bool(one.entry)})" for one in owner.contacts],
        }
        for name, owner in owners.items()
    }
    text = yaml.safe_dump({"source": source, "drivers": drivers}, sort_keys=False, allow_unicode=True, width=200)
    head = "# Written by `python -m tools.maintainers TREE DATE` from the output of scripts/get_maintainer.pl.\n"
    TABLE.write_text(head + text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
