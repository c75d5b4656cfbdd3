"""From a login to a failing build: `pinet init` on emulated boards of three distributions; then check, doctor, a
measurement, and gates of a good and a slow build with the lab file that it wrote.

| board | what it is | process 1 | manager of its NICs | login | ssh |
|---|---|---|---|---|---|
| raspios | Debian 12, as Raspberry Pi OS | systemd 252 | NetworkManager 1.42 | pi, with sudo | a NIC of its own |
| trixie | Debian 13 | systemd 257 | systemd-networkd | root | a NIC of its own |
| buildroot | Debian's busybox in place of all other programs | busybox | none | root | the NIC under test |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.emulated import image
from tests.support.debian_release import card_of
from tests.support.emulated_desk import EmulatedDesk, emulated_desk
from tests.support.emulated_gate import BOOT_S, NEEDS
from tests.support.labgrid_head import lab_with_peer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]
_VIRT = "clock_mhz: 62, cores: 2, buses: [pcie3x1], onboard: virtio"
_BOARD = "machine: virt, boot_timeout: 240 s, interfaces: {onboard: {port: PORT}}"
# So slow that traffic leaves time for ssh, however busy this machine is.
RATE_MBPS = 50
# The builds differ much more than this machine's noise.
TEST = """
import pytest

@pytest.mark.pinet(board={board!r}, min="5 Mbit/s", tolerance="20%")
def test_rx(link, gate):
    gate.tcp(link, direction="rx", duration="2 s")
"""
GOOD = "sysctls: {net.core.somaxconn: 4000}\n"
# The builds differ much more than this machine's noise: a window of 4096 bytes has room for one segment.
SLOW = "name: small buffers\nsysctls: {net.ipv4.tcp_rmem: '4096 4096 4096'}\n"
# Beside busybox, only these programs stay, as packages of Buildroot have them: iproute2, ethtool, iperf3 and OpenSSH.
# vcmailbox and vcgencmd stand in for the firmware, agetty and login belong to the console.
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
$b sync
"""


@dataclass(frozen=True)
class Kind:
    """A board: its keys in the hidden lab, its login, and what ``pinet init`` must find.

    ``shows`` is a command, and the words at the beginning of its output that prove what runs there. ``release`` is the
    release of Debian if it is not that of this machine. ``prepare`` changes the board after its first boot.
    """

    keys: str
    user: str
    way: str
    model: str
    board: str
    system: str
    shows: tuple[str, str]
    release: str = ""
    prepare: Callable[[EmulatedDesk, str], None] = lambda desk, name: None


def remove_all_but_busybox(desk: EmulatedDesk, name: str) -> None:
    desk.lab.execute(name, _BUILDROOT)
    desk.lab.switch_power(False, name)
    desk.lab.switch_power(True, name)
    wait_until(f"the boot of {name}", partial(desk.lab.answers, name), BOOT_S)
    assert desk.lab.execute(name, "ls /usr/bin/bash /usr/bin/sudo /usr/bin/systemctl 2>/dev/null || :") == ""
    assert desk.lab.execute(name, "readlink -f /bin/sh; readlink -f /bin/ls").split() == ["/usr/bin/busybox"] * 2


KINDS = {
    "raspios": Kind(
        f"board: like-pi4b, manager: NetworkManager, user: pi, {_BOARD}",
        *("pi", "separate", "Raspberry Pi 4 Model B Rev 1.4", "pi4b", "Debian GNU/Linux 12"),
        ("cat /proc/1/comm; /usr/sbin/NetworkManager --version; systemctl is-active NetworkManager", "systemd 1.42."),
    ),
    "trixie": Kind(
        f"board: virt, manager: systemd-networkd, {_BOARD}",
        *("root", "separate", "QEMU virt", "qemu-virt", "Debian GNU/Linux 13"),
        ("cat /proc/1/comm; systemctl is-active systemd-networkd; systemctl --version", "systemd active systemd 257 "),
        "trixie",
    ),
    "buildroot": Kind(
        f"board: virt, management: same, {_BOARD}",
        *("root", "same", "QEMU virt", "qemu-virt", "Buildroot 2025.02"),
        ("cat /proc/1/comm; readlink -f /proc/1/exe", "init /usr/bin/busybox"),
        prepare=remove_all_but_busybox,
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_login_is_enough_for_a_lab_a_measurement_and_gates(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kind = KINDS[name]
    if kind.release:
        monkeypatch.setattr(image, "card_image", partial(card_of, kind.release))
    hidden = lab_with_peer(
        "hidden",
        {"virt": f"title: QEMU virt, {_VIRT}", "like-pi4b": f"title: Raspberry Pi 4 Model B Rev 1.4, {_VIRT}"},
        ("virtio", "driver: virtio_net, bus: soc"),
        RATE_MBPS,
        {name: kind.keys},
    )
    with emulated_desk(tmp_path_factory, hidden, name, "peer") as desk:
        kind.prepare(desk, name)
        command, beginning = kind.shows
        assert " ".join(desk.lab.execute(name, command).split()).startswith(beginning)

        file = desk.init(name, kind.user, f"{RATE_MBPS}M")
        text = file.read_text()
        print(text)  # noqa: T201
        comments = " ".join(text.replace("\n    #", " ").split())
        assert f"{kind.user}@127.0.0.1:{desk.ports[name]}: {kind.model}; {kind.system}" in comments
        assert f"user {kind.user} has root rights; iperf3 3." in comments
        lab = load(file)
        assert (lab.nodes[name].board.name, str(lab.nodes[name].management)) == (kind.board, kind.way)
        desk.doctor(file)

        desk.project.write("test_desk.py", TEST.format(board=kind.board))
        desk.project.write("good.yaml", GOOD)
        desk.project.write("slow.yaml", SLOW)
        desk.project.pytest(lab_file=file, timeout_s=300)
        # That there is a judged value shows that the file is right. How certain it is depends on the host: an emulated
        # board and its peer share two processors.
        (result,) = desk.project.results["results"]
        assert result["directions"]["rx"]["goodput_bps"] > 5e6
        assert result["verdict"] in {"pass", "marginal", "inconclusive"}

        before = buffers(desk, name)
        code, text = desk.gate("good.yaml", file)
        assert code == 0, text
        code, text = desk.gate("slow.yaml", file)
        assert code == 1, text
        (entry,) = desk.project.results["change"]["entries"]
        assert entry["verdict"] == "fail"
        assert buffers(desk, name) == before


def buffers(desk: EmulatedDesk, name: str) -> list[str]:
    return desk.lab.execute(name, "cat /proc/sys/net/ipv4/tcp_rmem").split()
