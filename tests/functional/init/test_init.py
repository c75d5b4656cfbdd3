"""``pinet init`` as a user calls it, against real ssh servers on a desk of namespaces."""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.lab.link.end import End, read_surroundings
from pytest_pinet.lab.node.kinds import RunnerSession
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.combination import Endpoint
from tests.support.desk_bench import DeskBench, desk_bench

PI, OTHER = "root@192.0.2.5", "root@192.0.2.6"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeskBench]:
    with desk_bench(tmp_path_factory.mktemp("desk") / "bench") as made:
        yield made


def test_one_board_and_this_machine(bench: DeskBench) -> None:
    done = bench.pinet("init", PI)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == [
        "  pinet doctor --lab desk.yaml",
        "  pytest --pyargs pytest_pinet.suites.test_everyday --pinet-profile=fast --pinet-lab=desk.yaml",
    ]
    lab = load(bench.folder / "desk.yaml")
    pi, pc = lab.nodes.values()
    assert (pi.name, str(pi.management), [one.device for one in pi.interfaces]) == ("pi-1", "same", ["eth0"])
    assert (pc.runner, [one.device for one in pc.interfaces]) == (True, ["enp3s0"])
    checked = bench.pinet("check", "desk.yaml")
    assert (checked.returncode, "lab desk: 2 nodes, 2 interfaces" in checked.stdout) == (0, True)
    before = (bench.folder / "desk.yaml").read_text()
    again = bench.pinet("init", PI)
    assert again.returncode == 4
    assert "desk.yaml exists already, and is not changed; choose another file with --output" in again.stderr
    assert (bench.folder / "desk.yaml").read_text() == before


def test_the_nic_of_this_machine_is_not_taken_from_its_manager(bench: DeskBench) -> None:
    """NetworkManager would remove its addresses, and with them the ssh connection to the board."""
    node = load(bench.folder / "desk.yaml").nodes["pc"]
    shell = SshShell("pc", bench.inside("pc", "/bin/sh", "-c"))
    address = ipaddress.IPv4Interface("198.18.0.1/24")
    end = End(Endpoint(node, node.interface("lan")), RunnerSession(node), shell, address)
    assert read_surroundings(end).carries_ssh
    shell.run("ip addr flush dev enp3s0; ip addr add 198.18.0.1/24 dev enp3s0")
    try:
        assert not read_surroundings(end).carries_ssh
    finally:
        shell.run("ip addr flush dev enp3s0; ip addr add 192.0.2.1/24 dev enp3s0")


def test_two_boards_by_the_settings_of_ssh_without_root_rights(bench: DeskBench) -> None:
    """``shelf`` stands in ~/.ssh/config, with address and user."""
    done = bench.pinet("init", "shelf", OTHER, "--name", "two")

    assert done.returncode == 0, done.stderr
    assert "pi-1: user pi has no root rights" in done.stderr
    assert "-> on pi-1: sudo raspi-config nonint do_sudo_pass 1" in done.stderr
    assert list(load(bench.folder / "two.yaml").nodes) == ["pi-1", "pi-2"]
    text = (bench.folder / "two.yaml").read_text()
    assert "NetworkService: {address: shelf, username: pi}" in text


def test_iperf3_is_installed_only_if_the_user_agrees(bench: DeskBench) -> None:
    installed = bench.folder / "b1" / "installed"
    silent = bench.pinet("init", OTHER, "-o", "silent.yaml", "--yes")
    status, refused = bench.converse(
        {"Install iperf3 on root@192.0.2.6 now? [y/N]: ": "n"}, "init", OTHER, "-o", "n.yaml"
    )

    assert (silent.returncode, status, installed.exists()) == (0, 0, False), silent.stderr + refused
    assert "-> ssh -t root@192.0.2.6 'DEBIAN_FRONTEND=noninteractive apt-get install -y iperf3'" in silent.stderr
    assert "This command installs it there: DEBIAN_FRONTEND=noninteractive apt-get install -y iperf3" in refused
    status, agreed = bench.converse(
        {"Install iperf3 on root@192.0.2.6 now? [y/N]: ": "y"}, "init", OTHER, "-o", "y.yaml"
    )
    assert (status, installed.read_text()) == (0, "install -y iperf3\n"), agreed
    assert "user root has root rights; iperf3 3." in " ".join((bench.folder / "y.yaml").read_text().split())
    assert "->" not in agreed


def test_the_path_of_a_key_holds_in_every_folder(bench: DeskBench) -> None:
    done = bench.pinet("init", PI, "-i", "key", "-o", "keyed.yaml")

    assert done.returncode == 0, done.stderr
    assert f"PiSSHDriver: {{keyfile: '{bench.folder}/key'}}" in (bench.folder / "keyed.yaml").read_text()
    missing = bench.pinet("init", PI, "-i", "nokey", "-o", "no.yaml")
    assert (missing.returncode, missing.stderr) == (4, "pinet: --keyfile: there is no file nokey\n")


def test_all_boards_that_fail_are_named_at_once(bench: DeskBench) -> None:
    done = bench.pinet("init", "nouser@192.0.2.5", OTHER, "root@192.0.2.9", "nohost.invalid", "-o", "no.yaml")

    assert done.returncode == 2
    assert "192.0.2.5 refused nouser@192.0.2.5" in done.stderr
    assert "no answer from 192.0.2.9" in done.stderr
    assert "nohost.invalid is no host that this machine knows" in done.stderr
    assert "192.0.2.6 " not in done.stderr.partition("...")[2]
    assert not (bench.folder / "no.yaml").exists()


def test_host_keys_are_the_user_s_business(bench: DeskBench) -> None:
    try:
        bench.know_hosts(known=False)
        unknown = bench.pinet("init", PI, "-o", "no.yaml")
        bench.know_hosts(key=" ".join((bench.folder / "key.pub").read_text().split()[:2]))
        changed = bench.pinet("init", PI, "-o", "no.yaml")
    finally:
        bench.know_hosts()

    assert (unknown.returncode, changed.returncode) == (2, 2)
    assert "does not know the host key of 192.0.2.5\n  -> log in once and accept the key: ssh" in unknown.stderr
    assert "another board or another card answers there\n  -> if this is right: ssh-keygen -R" in changed.stderr


def test_without_a_terminal_each_missing_value_is_an_option(bench: DeskBench) -> None:
    done = bench.pinet("init", "-o", "no.yaml")

    assert done.returncode == 4
    assert done.stderr == "pinet: Login of the board, such as pi@192.0.2.5: give it with LOGIN\n"
    wrong = bench.pinet("init", "pi@", "-o", "no.yaml")
    assert (wrong.returncode, "LOGIN: expected a login such as" in wrong.stderr) == (4, True)


def test_a_terminal_is_asked_only_what_is_missing(bench: DeskBench) -> None:
    status, text = bench.converse({"Login of the board": PI}, "init", "-o", "answered.yaml")

    assert status == 0, text
    assert text.count("?") == 0
    assert "answered.yaml is written" in text
    status, text = bench.converse({}, "init", PI, "-o", "complete.yaml")
    assert (status, "complete.yaml is written" in text) == (0, True), text


def test_a_bench_is_asked_with_examples(bench: DeskBench, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "address of the coordinator [": "bench.example.org:20408",
        "places and models: ": "pi4b-1, pi5-1",
        "power of the boards (outlet, poe, none) [outlet]: ": "poe",
        "consoles of the boards (serial, none) [serial]: ": "",
        "kind of the switch (fixed, snmp, cli, linux) [fixed]: ": "snmp",
        "address of the switch": "192.0.2.2",
        "switch port of pi4b-1: ": "gi1",
        "switch port of pi5-1: ": "gi2",
    }
    status, text = bench.converse(answers, "init", "--bench")

    assert status == 0, text
    assert "Example: pi4b-1=pi4b, pi5-1=pi5." in text
    for name in ("LG_CONSOLE_PASSWORD", "LG_SNMP_COMMUNITY"):
        assert name in text
        monkeypatch.setenv(name, "secret")
    assert [node.board.name for node in load(bench.folder / "bench.yaml").nodes.values()] == ["pi4b", "pi5"]
    assert bench.pinet("check", "bench.yaml").returncode == 0


def test_a_bench_by_options_with_a_board_that_is_looked_at(bench: DeskBench) -> None:
    words = ["--bench", "--coordinator", "127.0.0.1:1", "--power", "none", "--console", "none", "--switch", "fixed"]
    done = bench.pinet("init", PI, *words, "-o", "mixed.yaml", "--port", "pi-1=p1")

    assert done.returncode == 0, done.stderr
    (node,) = load(bench.folder / "mixed.yaml").nodes.values()
    assert (node.name, [one.device for one in node.interfaces]) == ("pi-1", ["eth0"])
    wrong = bench.pinet("init", "--bench", "-o", "no.yaml")
    assert (wrong.returncode, "address of the coordinator: give it with --coordinator" in wrong.stderr) == (4, True)


@pytest.mark.slow
def test_from_a_login_to_a_measurement(bench: DeskBench) -> None:
    """The cable carries 100 Mbit/s: veth alone is faster than the link speed that it reports."""
    assert bench.pinet("init", PI, "-o", "whole.yaml").returncode == 0
    doctor = bench.pinet("doctor", "--lab", "whole.yaml", "--json", timeout_s=200.0)
    found = json.loads(doctor.stdout)
    # This machine may be busy with other tests.
    assert {one["check"] for one in found if one["status"] == "wrong"} <= {"idle noise"}, doctor.stdout
    test = "import pytest\n\n@pytest.mark.pinet(min='1 Mbit/s')\ndef test_rx(link, gate):\n    gate.tcp(link, 'rx')\n"
    (bench.folder / "test_whole.py").write_text(test)
    for name, device in (("pc", "enp3s0"), ("b0", "eth0")):
        subprocess.run(
            bench.inside(
                name, "tc", *f"qdisc replace dev {device} root tbf rate 100mbit burst 64k latency 20ms".split()
            ),
            check=True,
            timeout=10,
        )
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pinet-lab=whole.yaml", "test_whole.py"]
    done = subprocess.run(
        bench.as_user(*argv), env=bench.environment, cwd=bench.folder, capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((bench.folder / ".pinet" / "latest" / "results.json").read_text())["results"]
    assert [one["verdict"] for one in results] == ["pass"]
    # The board and this machine are as before.
    left = subprocess.run(
        bench.inside("pc", "ip", "-br", "addr"), capture_output=True, text=True, timeout=10, check=True
    )
    assert "198.18." not in left.stdout, done.stdout + done.stderr + doctor.stdout + doctor.stderr
    assert "192.0.2.1/24" in left.stdout
