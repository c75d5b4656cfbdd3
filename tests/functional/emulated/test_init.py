"""From a login to a failing build: `pinet init` on three emulated boards of different distributions; then check,
doctor, a measurement, and gates of a good and a slow build with the lab file that it wrote.

| board | what it is | init | manager of its NICs | login |
|---|---|---|---|---|
| raspios | Debian 12, the base of Raspberry Pi OS | systemd 252 | NetworkManager 1.42 | pi, with sudo |
| server | Debian 13 | systemd 257 | systemd-networkd | root |
| small | Debian's busybox, as Buildroot has it: no coreutils, bash, sudo, procps or apt | busybox | none | root |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.emulated.image import cache
from pytest_pinet.errors import LabError
from pytest_pinet.virtual.runtime import Runtime
from tests.support.debian_release import card_of, exchange_card
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
        "small": f"board: virt, management: same, {_BOARD}",
        "raspios": f"board: like-pi4b, manager: NetworkManager, user: pi, {_BOARD}",
        "server": f"board: virt, manager: systemd-networkd, {_BOARD}",
    },
)
TEST = """
import pytest

@pytest.mark.pinet(board={board!r}, min="5 Mbit/s", tolerance="20%")
def test_rx(link, gate):
    gate.tcp(link, direction="rx", duration="5 s")
"""
BUILDS = {
    "good.yaml": "sysctls: {net.core.somaxconn: 4000}\n",
    # So small a buffer takes one segment a round trip.
    "slow.yaml": "name: small buffers\nsysctls: {net.ipv4.tcp_rmem: '4096 4096 4096'}\n",
}
# Only these programs stay beside busybox, as packages of Buildroot: iproute2, ethtool, iperf3 and OpenSSH.
_BUILDROOT = """\
rm -f /etc/os-release
printf '%s\\n' NAME=Buildroot VERSION=2025.02 ID=buildroot VERSION_ID=2025.02 'PRETTY_NAME="Buildroot 2025.02"' \
    >/etc/os-release
sed -i 's,:/bin/bash$,:/bin/sh,' /etc/passwd
b=/usr/bin/busybox
list=" $($b --list | $b tr '\\n' ' ')" gone=
for f in /usr/bin/* /usr/sbin/*; do
    n=${f##*/}
    case $n in busybox|ip|ss|ethtool|iperf3|ssh*|vcmailbox|vcgencmd|agetty|login) continue ;; esac
    case $list in *" $n "*) $b ln -sf $b "$f" ;; *) gone="$gone $f" ;; esac
done
$b rm -f $gone
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedDesk]:
    with emulated_desk(tmp_path_factory, HIDDEN, "peer") as desk:
        yield desk


def made_small(desk: EmulatedDesk, name: str) -> None:
    """Make a board without a network manager one that has busybox only. sshd needs the shell that it has now."""
    desk.lab.execute(name, _BUILDROOT)
    assert desk.lab.execute(
        name, "readlink -f /bin/sh; readlink -f /bin/ls; ls /usr/bin/bash /usr/bin/sudo || :"
    ).split() == (["/usr/bin/busybox"] * 2)


def given_debian_13(desk: EmulatedDesk, name: str) -> None:
    """Exchange the card of a board that has been switched on once, and switch it on with the other card."""
    try:
        other = card_of("trixie", print)
    except LabError as error:
        pytest.skip(f"no packages of Debian 13: {error}")
    desk.lab.switch_power(False, name)
    exchange_card(cache() / "cards" / Runtime.of(str(desk.lab.file)).path.name / name / "card.img", other)
    desk.lab.switch_power(True, name)
    wait_until(f"the boot of {name}", lambda: desk.lab.answers(name), BOOT_S)


@pytest.mark.parametrize(
    ("name", "user", "way", "model", "board", "system", "prepare"),
    [
        ("small", "root", "same", "QEMU virt", "qemu-virt", "Buildroot 2025.02", made_small),
        ("raspios", "pi", "separate", "Raspberry Pi 4 Model B Rev 1.4", "pi4b", "Debian GNU/Linux 12", None),
        ("server", "root", "separate", "QEMU virt", "qemu-virt", "Debian GNU/Linux 13", given_debian_13),
    ],
)
def test_a_login_is_enough_for_a_lab_a_measurement_and_gates(
    desk: EmulatedDesk,
    tmp_path: Path,
    name: str,
    user: str,
    way: str,
    model: str,
    board: str,
    system: str,
    prepare: Callable[[EmulatedDesk, str], None] | None,
) -> None:
    desk.lab.switch_power(True, name)
    try:
        wait_until(f"the boot of {name}", lambda: desk.lab.answers(name), BOOT_S)
        if prepare is not None:
            prepare(desk, name)
        file = desk.init(name, user, "10M")
        text = file.read_text()
        print(text)  # noqa: T201
        comments = " ".join(text.replace("\n    #", " ").split())
        assert f"{user}@127.0.0.1:{desk.ports[name]}: {model}; {system}" in comments
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

        for test, content in {"test_desk.py": TEST.format(board=board), **BUILDS}.items():
            desk.project.write(test, content)
        code, text = desk.gate("good.yaml", file)
        assert code == 0, text
        code, text = desk.gate("slow.yaml", file)
        assert code == 1, text
        (entry,) = desk.project.results["change"]["entries"]
        assert entry["outcome"] == "regression"
        assert desk.lab.execute(name, "cat /proc/sys/net/ipv4/tcp_rmem").split()[0] == "4096"
        assert desk.lab.execute(name, "cat /proc/sys/net/ipv4/tcp_rmem").split()[2] != "4096"
    finally:
        desk.lab.switch_power(False, name)
