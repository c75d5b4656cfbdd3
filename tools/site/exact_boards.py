"""The table of exact boards for docs/reference/exact-boards.md, from the packaged lab and the data of the boards."""

from __future__ import annotations

from pytest_pinet.config.labfile import load
from pytest_pinet.exact.measure import DEFAULT, exact_boards
from tools.site.markdown import table


def exact_boards_table() -> str:
    """Return one row for each board: its NIC as the lab file calls it, its driver and modules, and what it needs."""
    nodes = load(DEFAULT, in_use=False).nodes
    rows = []
    for name, board in exact_boards().items():
        (interface,) = nodes[name].interfaces
        nic = board.nic
        made_by = f"QEMU {'.'.join(map(str, nic.qemu))}" if nic.model is None else f"`devices/{nic.model.source}.c`"
        rows.append((f"`{name}`", interface.nic.title, nic.driver, board.machine.name, made_by))
    return table(("board", "NIC", "driver", "machine of QEMU", "model of the NIC"), rows)
