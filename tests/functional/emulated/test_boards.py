"""Boards in QEMU: boot, NICs and drivers, the serial console, and the firmware's fallback after a bad build.

Needs QEMU and, the first time, Debian's packages. One boot takes some 10 s, on a Raspberry Pi 3 some 30 s.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_pinet.virtual.container import ProcessId, wait_gone
from pytest_pinet.virtual.launcher import launcher
from pytest_pinet.virtual.runtime import ssh_command
from pytest_pinet.virtual.spec import spec_of
from tests.support.emulated_gate import NEEDS, card_or_skip
from tests.support.small_virtual_lab import Bench, bench_up, console, expect, log_in, processes, small_lab
from tests.support.waiting import wait_until

# Several times the boot time of an idle machine, for a busy one.
BOOT_S = 240.0
PI_BOOT_S = 480.0
KNOWN_GOOD = "console=ttyAMA0,115200 root=/dev/vda2 rootfstype=ext4 rootwait"
PI_KNOWN_GOOD = "console=ttyS1,115200 root=/dev/mmcblk0p2 rootfstype=ext4 rootwait"
LAB_FILE = """\
pinet:
  name: boards
  launcher: virtual
  boards:
    virt: {clock_mhz: 62, cores: 1, buses: [pcie3x1, usb3]}
    raspi3b: {clock_mhz: 62, cores: 4, buses: [usb2]}
  nics:
    e1000e: {driver: e1000e, bus: pcie3x1, speeds_mbps: [1000]}
    virtio: {driver: virtio_net, bus: pcie3x1, speeds_mbps: [10000]}
    usb-net: {driver: cdc_ether, bus: usb3, speeds_mbps: [1000]}
    usb2-net: {driver: cdc_ether, bus: usb2, speeds_mbps: [100]}
  switches:
    sw-1: {backend: linux, address: "ssh://root@127.0.0.1:1", ports: p1-p6}
  nodes:
    board:
      board: virt
      machine: virt
      clock: virtual
      interfaces:
        pcie: {nic: e1000e, port: sw-1/p1}
        virtio: {nic: virtio, port: sw-1/p2}
        usb: {nic: usb-net, port: sw-1/p3}
    second:
      board: virt
      machine: virt
      clock: virtual
      interfaces:
        pcie: {nic: e1000e, port: sw-1/p5}
    pi:
      board: raspi3b
      machine: raspi3b
      clock: virtual
      interfaces:
        usb: {nic: usb2-net, port: sw-1/p6}
    peer:
      board: pi4b
      interfaces:
        onboard: {port: sw-1/p4}
"""

pytestmark = [pytest.mark.slow, pytest.mark.emulated, *NEEDS]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with ExitStack() as stack:
        with card_or_skip():
            bench = stack.enter_context(bench_up(tmp_path_factory.mktemp("emulated"), LAB_FILE))
        yield bench


@pytest.fixture
def board(bench: Bench) -> Bench:
    """Yield a board that runs its known-good build and has no other build on its boot partition."""
    if bench.outlet("board") != "1" or not answers(bench) or cmdline(bench) != KNOWN_GOOD:
        power_cycle(bench)
    bench.ssh("board", "rm -rf /boot/firmware/tryboot.txt /boot/firmware/new; sync")
    return bench


def answers(bench: Bench, node: str = "board") -> bool:
    argv = ssh_command(bench.lab.file, node, ["true"])
    # An attempt that is given up early has cost the board processor time, which the next attempt then lacks: on a busy
    # machine, one login takes more than 10 s.
    argv[1:1] = ["-o", "ConnectTimeout=20"]
    try:
        return subprocess.run(argv, capture_output=True, timeout=60, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def await_ssh(bench: Bench, node: str = "board", timeout_s: float = BOOT_S) -> None:
    wait_until(f"ssh of {node}", lambda: answers(bench, node), timeout_s)


def power_cycle(bench: Bench) -> None:
    bench.outlet("board", "0")
    bench.outlet("board", "1")
    await_ssh(bench)


def cmdline(bench: Bench, node: str = "board") -> str:
    return bench.ssh(node, "cat /proc/cmdline").strip()


def log(bench: Bench, node: str = "board") -> str:
    return (bench.runtime.path / f"console-{node}.log").read_text(errors="replace")


def stage(
    bench: Bench, more: str, kernel: str = "cp kernel8.img initramfs8 new/", node: str = "board", base: str = KNOWN_GOOD
) -> None:
    """Install a build beside the known-good one, with more command line, and select it in tryboot.txt."""
    bench.ssh(
        node,
        f"cd /boot/firmware && mkdir -p new && {kernel} && echo '{base} {more}' > new/cmdline.txt && "
        "{ cat config.txt; echo os_prefix=new/; } > tryboot.txt && sync",
        timeout_s=60,
    )


def reboot(
    bench: Bench, tryboot: bool, shown: Callable[[str], bool], node: str = "board", timeout_s: float = BOOT_S
) -> str:
    """Reboot and wait for a text on the console. Return the console output since the reboot."""
    before = len(log(bench, node))
    if tryboot:
        # As a deployment does, with the tags of the firmware's mailbox.
        bench.ssh(node, "vcmailbox 0x00038064 4 0 1 && vcmailbox 0x00030064 4 0 0 | grep -q 0x00000001")
    bench.ssh(node, "(sleep 0.2; reboot) >/dev/null 2>&1 &")
    wait_until(f"the console of {node}", lambda: shown(log(bench, node)[before:]), timeout_s)
    return log(bench, node)[before:]


def machines(bench: Bench) -> list[ProcessId]:
    """Return the QEMU processes of all boards that are on."""
    known = bench.runtime.read_json("machines.json")
    assert known is not None
    found = [ProcessId(**value) for value in known["processes"]]
    return [process for process in found if "qemu" in Path(f"/proc/{process.pid}/comm").read_text()]


def resident_mib(process: ProcessId) -> int:
    """Return the resident memory in MiB."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmRSS:"))


def test_a_board_boots_with_ssh_and_all_nics(bench: Bench) -> None:
    for node in ("board", "second", "pi"):
        bench.outlet(node, "0")
    bench.outlet("board", "1")
    await_ssh(bench)
    found = bench.ssh("board", "for n in 0 1 2; do ethtool -i eth$n | head -1; done; uname -m; cat /proc/cmdline")
    assert found.splitlines() == [
        "driver: e1000e",
        "driver: virtio_net",
        "driver: cdc_ether",
        "aarch64",
        KNOWN_GOOD,
    ]
    addresses = bench.ssh("board", "cat /sys/class/net/eth[012]/address").split()
    assert addresses == [interface.mac for interface in spec_of(bench.lab).nodes[0].interfaces]


def test_the_serial_console_is_a_login_with_a_password(board: Bench) -> None:
    with console(board, "board") as sock:
        sock.settimeout(20)
        sock.sendall(b"\n")
        expect(sock, rb"board login: $")
        log_in(sock, board.environment["LG_CONSOLE_PASSWORD"])
        expect(sock, rb"root@board:~# $")
        sock.sendall(b"id -u; exit\n")
        assert b"\n0\r" in expect(sock, rb"board login: $")


def test_the_nic_has_the_carrier_of_its_switch_port(board: Bench) -> None:
    def carriers() -> list[str]:
        return board.ssh("board", "cat /sys/class/net/eth[01]/carrier").split()

    assert carriers() == ["1", "1"]
    board.switch("ip link set p2 down")
    try:
        wait_until("the loss of carrier", lambda: carriers() == ["1", "0"], timeout_s=20)
    finally:
        board.switch("ip link set p2 up")
    wait_until("carrier", lambda: carriers() == ["1", "1"], timeout_s=20)


def test_qemu_and_the_peer_have_priority_over_other_work(board: Bench) -> None:
    """Board time advances while the board is idle, so a late packet would reduce its goodput."""
    board.boot("peer")
    # Field 41 of proc(5)'s stat.
    assert board.ssh("peer", "awk '{print $41}' /proc/self/stat").strip() == str(os.SCHED_RR)
    qemu, *_ = machines(board)
    threads = [int(thread.name) for thread in Path(f"/proc/{qemu.pid}/task").iterdir()]
    policies = {thread: os.sched_getscheduler(thread) for thread in threads}
    assert policies.pop(qemu.pid) == os.SCHED_RR | os.SCHED_RESET_ON_FORK
    assert set(policies.values()) == {os.SCHED_OTHER}, "its processor would keep a processor of the machine for itself"


def test_power_off_loses_only_data_that_was_not_written_to_the_card(board: Bench) -> None:
    board.ssh("board", "echo kept > /boot/firmware/kept.txt; echo kept > /var/kept; sync; echo lost > /var/lost")
    power_cycle(board)
    found = board.ssh("board", "cat /boot/firmware/kept.txt /var/kept; cat /var/lost 2>/dev/null; rm -f /var/kept")
    board.ssh("board", "rm /boot/firmware/kept.txt; sync")
    assert found == "kept\nkept\n"


def test_two_boards_at_once_take_less_than_2_gib_of_memory(
    board: Bench, record_property: Callable[[str, object], None]
) -> None:
    board.outlet("pi", "0")
    board.outlet("second", "1")
    try:
        await_ssh(board, "second")
        # Fill the board's memory as long use would: with files that it read, and code that QEMU translated.
        for node in ("board", "second"):
            board.ssh(node, "cat /usr/bin/* /usr/lib/*/*.so* > /dev/null; for n in 1 2 3 4 5; do ip link; done", 60)
        used = [resident_mib(process) for process in machines(board)]
    finally:
        board.outlet("second", "0")
    record_property("resident_mib", used)
    assert len(used) == 2
    assert sum(used) < 2048, f"{used} MiB"


def test_raspi3b_boots_with_its_usb_nics_and_tries_a_build_once(bench: Bench) -> None:
    bench.outlet("pi", "0")
    bench.outlet("pi", "1")
    try:
        await_ssh(bench, "pi", PI_BOOT_S)
        found = bench.ssh(
            "pi", "tr -d '\\0' < /proc/device-tree/model; echo; nproc; ethtool -i eth0; cat /proc/cmdline"
        )
        lines = found.splitlines()
        assert lines[:3] == ["Raspberry Pi 3 Model B", "4", "driver: cdc_ether"]
        assert any(line.startswith("bus-info: usb-3f980000.usb-") for line in lines)
        assert lines[-1] == PI_KNOWN_GOOD
        assert "firmware: config.txt: kernel8.img, cmdline.txt, initramfs8, bcm2837-rpi-3-b.dtb" in log(bench, "pi")
        # As a deployment does: a kernel with initramfs and device tree in its own folder.
        stage(bench, "pinet.try=1", "cp kernel8.img initramfs8 *.dtb new/", "pi", PI_KNOWN_GOOD)
        said = reboot(bench, True, lambda text: "pi login:" in text, "pi", PI_BOOT_S)
        assert "firmware: tryboot.txt: new/kernel8.img, new/cmdline.txt, new/initramfs8, new/bcm2837" in said
        await_ssh(bench, "pi", PI_BOOT_S)
        assert cmdline(bench, "pi") == f"{PI_KNOWN_GOOD} pinet.try=1"
    finally:
        bench.outlet("pi", "0")


def test_no_qemu_survives_a_killed_daemon(tmp_path: Path, bench: Bench) -> None:
    lab = small_lab(tmp_path, LAB_FILE)
    own = Bench(lab)
    try:
        own.outlet("board", "1")
        own.outlet("pi", "1")
        running = machines(own)
        assert len(running) == 2
        processes(lab)["daemon"].kill(signal.SIGKILL)
        assert wait_gone(running, 30.0) == []
    finally:
        launcher().down(lab)
    assert not own.runtime.path.exists()
