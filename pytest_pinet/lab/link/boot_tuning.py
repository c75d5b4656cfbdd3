"""Tunings that need a boot. The device under test is rebooted with them, and without them once they are not wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_pinet.errors import LabError
from pytest_pinet.execution.trace import doing
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.tuning import Tuned, Tuning
from pytest_pinet.tuning import booting
from pytest_pinet.tuning.boot_files import KEPT
from pytest_pinet.tuning.registry import boot_part
from pytest_pinet.tuning.setting import NoKnob, SettingPlace


def boot_tuned(
    combination: Combination, sessions: Mapping[str, NodeSession], boot: Callable[[], object]
) -> tuple[Tuned, ...]:
    """Boot the nodes with the boot tunings of the combination; return their outcomes. Raises LabError.

    ``boot`` boots the nodes that are due. A node that already runs with these tunings is not rebooted, so that
    consecutive tests share one boot.
    """
    wanted = boot_part(combination.tuning)
    dut = combination.dut
    session = sessions[dut.node.name]
    for name, other in sessions.items():
        if name != dut.node.name:
            _boot_with(other, name, Tuning())

    def place(device: str) -> SettingPlace:
        return SettingPlace(session.shell, device, str(dut), dut.node.name)

    if session.boot_tuning != wanted:
        # Read all NICs of the node, since tests of its other NICs share this boot.
        before = {i.device: booting.found(place(i.device), wanted) for i in dut.node.interfaces}
        try:
            _boot_with(session, dut.node.name, wanted)
        except NoKnob as why:
            return tuple(booting.unsupported(dut.node.name, wanted, str(why)))
        session.boot_before = before
    if any(one.reset_due for one in sessions.values()):
        try:
            boot()
        except LabError as error:
            if not wanted:
                raise
            act = f"put the card of {dut.node.name} right: beside its boot files are the originals, *{KEPT}"
            again = type(error)(f"{error.message} (booted with {wanted.key})", act)
            again.excerpt = error.excerpt
            raise again from error
    if not wanted:
        return ()
    device = dut.interface.device
    return tuple(booting.read_back(place(device), wanted, session.boot_before.get(device, {})))


def _boot_with(session: NodeSession, name: str, wanted: Tuning) -> None:
    if session.boot_tuning == wanted:
        return
    with doing(f"deploy {wanted.key} to {name}" if wanted else f"put back the boot files of {name}"):
        session.boot_with(wanted)
