"""Restore the switch ports that dead processes left changed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_pinet.errors import ConfigError, LabError, SwitchError
from pytest_pinet.lab.switch.journal import Journal
from pytest_pinet.lab.switch.switchport import PortState
from pytest_pinet.model.lab import PortRef

if TYPE_CHECKING:
    from pytest_pinet.lab.switch.managed_switch import ManagedSwitch


def restore_crashed(
    lab_file: str,
    open_switch: Callable[[str], ManagedSwitch],
    folder: Path | None = None,
    spared: Collection[PortRef] = (),
) -> list[str]:
    """Restore the ports that dead processes left changed on this lab's switches; return a sentence for each port.

    Changes of living processes and the ports in ``spared`` are left alone. Raises SwitchError when a switch refuses,
    after all others were restored.
    """
    found, told = Journal(lab_file, folder).left_behind()
    left = {
        name: kept
        for name, ports in found.items()
        if (kept := {port: state for port, state in ports.items() if PortRef(name, port) not in spared})
    }
    failures: list[LabError | ConfigError] = []
    for name, ports in left.items():
        try:
            switch = open_switch(name)
            try:
                switch.put_back(ports)
            finally:
                switch.close()
        except (LabError, ConfigError) as error:
            failures.append(error)
            continue
        told += [f"restored port {port} of switch {name}: {_words(state)}" for port, state in ports.items()]
    if failures:
        done = "".join(f"\n  {line}" for line in told)
        raise SwitchError("; ".join(error.message for error in failures) + done, getattr(failures[0], "act", ""))
    return told


def _words(state: PortState) -> str:
    words = [] if state.admin_up is None else ["up" if state.admin_up else "down"]
    words += [] if state.vlan is None else [f"VLAN {state.vlan}"]
    words += [] if state.poe is None else [f"power {'on' if state.poe else 'off'}"]
    return ", ".join(words)
