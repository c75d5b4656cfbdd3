"""From a login to a measurement: `pinet init` on emulated boards with three set-ups; then check, doctor and a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from tests.support.emulated_desk import EmulatedDesk, emulated_desk
from tests.support.emulated_gate import NEEDS
from tests.support.gate_project import Project, wait_until
from tests.support.labgrid_head import lab_with_peer

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]
BOOT_S = 280.0
_VIRT = "clock_mhz: 62, cores: 2, buses: [pcie3x1], onboard: virtio"
_BOARD = "machine: virt, boot_timeout: 240 s, interfaces: {onboard: {port: PORT}}"
HIDDEN = lab_with_peer(
    "hidden",
    {"virt": f"title: QEMU virt, {_VIRT}", "like-pi4b": f"title: Raspberry Pi 4 Model B Rev 1.4, {_VIRT}"},
    ("virtio", "driver: virtio_net, bus: soc"),
    # So slow that traffic leaves time for ssh, however busy this machine is.
    10,
    {
        "plain": f"board: virt, management: same, user: pi, {_BOARD}",
        "raspios": f"board: like-pi4b, manager: NetworkManager, {_BOARD}",
        "server": f"board: virt, manager: systemd-networkd, {_BOARD}",
    },
)
TEST = """
import pytest

@pytest.mark.pinet(board={board!r}, min="5 Mbit/s")
def test_rx(link, gate):
    gate.tcp(link, direction="rx", duration="5 s")
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedDesk]:
    with emulated_desk(tmp_path_factory, HIDDEN, "peer") as desk:
        yield desk


@pytest.mark.parametrize(
    ("name", "user", "way", "model", "board"),
    [
        ("plain", "pi", "same", "QEMU virt", "qemu-virt"),
        ("raspios", "root", "separate", "Raspberry Pi 4 Model B Rev 1.4", "pi4b"),
        ("server", "root", "separate", "QEMU virt", "qemu-virt"),
    ],
)
def test_a_login_is_enough_for_a_lab_and_a_measurement(
    desk: EmulatedDesk, tmp_path: Path, name: str, user: str, way: str, model: str, board: str
) -> None:
    desk.lab.switch_power(True, name)
    try:
        wait_until(f"the boot of {name}", lambda: desk.lab.answers(name), BOOT_S)
        file = desk.init(name, user, "10M")
        text = file.read_text()
        print(text)  # noqa: T201
        comments = " ".join(text.replace("\n    #", " ").split())
        assert f"{user}@127.0.0.1:{desk.ports[name]}: {model}; " in comments
        assert f"user {user} has root rights; iperf3 3." in comments
        lab = load(file)
        assert (lab.nodes[name].board.name, str(lab.nodes[name].management)) == (board, way)
        desk.doctor(file)

        project = Project(tmp_path, desk.lab)
        project.write("test_desk.py", TEST.format(board=board))
        output = project.pytest("-p", "no:cacheprovider", f"--pinet-run-dir={tmp_path}", lab_file=file, timeout_s=300)
        print(output.outlines)  # noqa: T201
        # That there is a judged value shows that the file is right. How certain it is depends on the host: an emulated
        # board and its peer share two processors.
        (result,) = project.results["results"]
        assert result["directions"]["rx"]["goodput_bps"] > 5e6
        assert result["verdict"] in {"pass", "marginal", "inconclusive"}
    finally:
        desk.lab.switch_power(False, name)
