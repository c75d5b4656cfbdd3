"""A virtual lab gives users no additional access to the machine: consoles, devices, rights."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.virtual.launcher import launcher
from pytest_pinet.virtual.loopback import peer_uid
from pytest_pinet.virtual.runtime import password_hash, ssh_command
from tests.support.small_virtual_lab import Bench, bench_up, console, expect, log_in, small_lab

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

REPOSITORY = Path(__file__).parents[3]
# Bits of capabilities(7).
LOST = {"mac_override": 32, "mac_admin": 33, "syslog": 34, "sys_admin": 21, "sys_module": 16, "sys_rawio": 17}
LOST |= {"sys_boot": 22, "sys_time": 25, "mknod": 27, "sys_ptrace": 19, "dac_read_search": 2, "bpf": 39}
KEPT = {"net_admin": 12, "net_raw": 13, "setuid": 7, "sys_chroot": 18}
NOBODY = 65534


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench_up(tmp_path_factory.mktemp("privacy")) as found:
        found.boot("left")
        yield found


def words(bench: Bench, command: str) -> set[str]:
    return set(bench.ssh("left", command).split())


def test_each_lab_has_its_own_password_that_only_its_user_can_read(bench: Bench, tmp_path: Path) -> None:
    own = bench.environment["LG_CONSOLE_PASSWORD"]
    other = small_lab(tmp_path)
    try:
        assert len(own) == len(launcher().up(other)["LG_CONSOLE_PASSWORD"]) == 24
        assert own != launcher().up(other)["LG_CONSOLE_PASSWORD"]
    finally:
        launcher().down(other)
    assert (bench.runtime.keys / "console_password").read_text() == own
    holding = [file for file in bench.runtime.path.rglob("*") if file.is_file() and own.encode() in file.read_bytes()]
    assert {file.name for file in holding} == {"console_password", "state.json"}
    assert {file.stat().st_mode & 0o777 for file in holding} == {0o600}
    assert bench.runtime.path.stat().st_mode & 0o777 == 0o700


def test_the_password_gives_access_and_its_hash_differs_each_time(bench: Bench) -> None:
    own = bench.environment["LG_CONSOLE_PASSWORD"]
    assert password_hash(own) != password_hash(own)
    assert own not in bench.ssh("left", "cat /etc/shadow /proc/1/environ")
    with console(bench, "left") as sock:
        log_in(sock, own)
        expect(sock, rb"root@left:~# $")
        sock.sendall(b"tty; exit\n")
        assert b"/dev/ttyAMA0" in expect(sock, rb"left login: $")


def test_labgrid_finds_the_password_of_the_default_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    from labgrid.config import Config

    for name in ("COORDINATOR", "KEYFILE", "SWITCH_SW1"):
        monkeypatch.setenv(f"LG_{name}", "x")
    monkeypatch.setenv("LG_CONSOLE_PASSWORD", "0123abcd")
    targets = Config(str(REPOSITORY / "lab" / "virtual.yaml")).get_targets()
    assert {target["drivers"]["PiShellDriver"]["password"] for target in targets.values()} == {"0123abcd"}


def test_another_user_cannot_use_a_console(bench: Bench) -> None:
    port = bench.ports()["nodes"]["left"]["console"]
    listen = ["timeout", "1", "bash", "-c", f"read -r line </dev/tcp/127.0.0.1/{port}"]
    assert subprocess.run(listen, check=False, user=NOBODY, group=NOBODY, extra_groups=[]).returncode == 1  # closed
    assert subprocess.run(listen, check=False).returncode == 124  # silent


def test_the_user_at_the_other_end_of_a_connection_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()):
            near, _ = server.accept()
            assert peer_uid(near) == os.getuid()
        near.close()


def test_root_of_a_node_cannot_use_disks_or_other_devices_of_the_host(bench: Bench) -> None:
    own = "fd full null ptmx pts random shm stderr stdin stdout tty ttyAMA0 urandom zero"
    assert words(bench, "ls /dev") == set(own.split())
    # This reads every folder of the machine, which may have many.
    assert bench.ssh("left", "find / -xdev -type b; find /dev -type b", timeout_s=300).split() == []
    refused = "mknod /tmp/disk b 254 0 2>/dev/null || umount /dev 2>/dev/null || mount -t tmpfs x /mnt 2>/dev/null"
    assert bench.ssh("left", f"{refused} || echo refused").strip() == "refused"


@pytest.mark.parametrize("machine", ["left", "switch"])
def test_no_process_keeps_the_capabilities_of_init(bench: Bench, machine: str) -> None:
    command = "cat /proc/[0-9]*/status | grep CapBnd; cat /proc/[0-9]*/status | grep CapEff"
    text = bench.switch(command) if machine == "switch" else bench.ssh(machine, command)
    held = {bit for line in text.splitlines() for bit in range(64) if int(line.split()[1], 16) >> bit & 1}
    assert not {name for name, bit in LOST.items() if bit in held}
    assert not {name for name, bit in KEPT.items() if bit not in held}


def test_root_of_a_node_changes_only_its_own_network(bench: Bench) -> None:
    writable = "for f in /proc/sysrq-trigger /proc/sys/kernel/core_pattern /sys/kernel/mm /sys/power; do"
    assert bench.ssh("left", f"{writable} test -w $f && echo $f; done; true") == ""
    for command in (
        "sysctl -qw net.ipv4.tcp_timestamps=1",
        "echo 1 > /sys/class/net/eth0/queues/rx-0/rps_cpus",
        "ip link set eth0 mtu 1400 && ip link set eth0 mtu 1500",
        "tc qdisc add dev lo root tbf rate 1gbit burst 100k limit 100k && tc qdisc del dev lo root",
        "nft add table inet mine && nft delete table inet mine",
        "ping -c1 -W1 127.0.0.1",
        "chrt -f 1 true",
    ):
        bench.ssh("left", command)


def test_ssh_provides_a_terminal(bench: Bench) -> None:
    argv = ssh_command(bench.lab.file, "left", ["tty"])
    done = subprocess.run([argv[0], "-tt", *argv[1:]], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.startswith("/dev/pts/")


ROOT = Path(__file__).parents[3]
# The files that useradd replaces, and one that a package brings.
REPLACED = ("passwd", "group", "shadow", "login.defs")
# The machine of this lab is a mount namespace with its own /etc, so the files of the real machine stay.
MACHINE = """
cp -a /etc "$1/etc"
mount --bind "$1/etc" /etc
shift
exec "$@"
"""
IN_THE_MACHINE = "import sys; from tests.functional.virtual.test_privacy import replace_files as r; r(sys.argv[1])"


def replace_files(folder: str) -> None:
    """Run a lab, replace the files of the machine while a board runs, and print what the board reads before and after.

    Runs in the mount namespace of the test.
    """
    with bench_up(Path(folder)) as bench:
        bench.boot("left")
        read = "cd /etc && cat hostname hosts environment " + " ".join(REPLACED)
        before = bench.ssh("left", read)
        for name in REPLACED:
            new = Path("/etc", f"{name}+")
            new.write_text(Path("/etc", name).read_text() + "# new\n")
            new.rename(Path("/etc", name))
        after = bench.ssh("left", read)
        assert "new" in Path("/etc/passwd").read_text()
    assert after == before
    assert "sshd:x:100:65534::/run/sshd" in after
    assert after.startswith("left\n127.0.0.1 localhost left\n")


@pytest.mark.slow
def test_a_board_keeps_its_files_if_the_host_replaces_its_own(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    machine = ["unshare", "--mount", "sh", "-euc", MACHINE, "machine", str(tmp_path)]
    argv = [*machine, sys.executable, "-c", IN_THE_MACHINE, str(tmp_path / "lab")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
