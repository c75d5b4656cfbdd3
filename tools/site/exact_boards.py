"""The tables of docs/reference/exact-boards.md, from the packaged lab and the data of the boards."""

from __future__ import annotations

from pytest_pinet.config.labfile import load
from pytest_pinet.exact.measure import DEFAULT, exact_boards
from pytest_pinet.execution.grouping import grouped
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


def own_windows_table() -> str:
    """Return one row for each window that only some boards have, with these boards."""
    boards = exact_boards()
    found = grouped((window, name) for name, board in boards.items() for window in board.nic.windows)
    modelled = [name for name, board in boards.items() if board.nic.model is not None]

    def names(own: list[str]) -> str:
        return "all with a model of this package" if own == modelled else ", ".join(f"`{name}`" for name in own)

    return table(("window", "boards"), [(f"`{window}`", names(own)) for window, own in sorted(found.items())])
