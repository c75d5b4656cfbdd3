"""Builds for a running board: modules swapped, options and sysctls set, and everything undone without a boot."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.errors import BuildError, ConfigError, UnsupportedError
from pytest_pinet.lab.deploy.deployment import Deployment
from pytest_pinet.lab.deploy.live import Live
from pytest_pinet.lab.ssh import SshShell
from pytest_pinet.model.build import Build
from pytest_pinet.tuning.journal import replay
from tests.support import build_files as made
from tests.support.card_board import KNOWN_RELEASE, CardBoard, card_board
from tests.support.hostile import HOSTILE
from tests.support.namespaces import ip

RELEASE = KNOWN_RELEASE
VERMAGIC = made.VERMAGIC.replace(made.RELEASE, RELEASE)
KNOWN = made.module("r8169", VERMAGIC, srcversion="KNOWN")


@pytest.fixture
def board(tmp_path: Path) -> Iterator[CardBoard]:
    with card_board(tmp_path / "card", modules={"r8169": KNOWN}) as found:
        yield found


def one_module(folder: Path, data: bytes, name: str = "r8169") -> Build:
    (folder / f"{name}.ko").write_bytes(data)
    return load_build(str(folder / f"{name}.ko"))


def source(board: CardBoard) -> str:
    return board.shell.run("cat /sys/module/r8169/srcversion 2>/dev/null").stdout.strip()


def test_a_module_replaces_the_known_good_one(board: CardBoard, tmp_path: Path) -> None:
    build = one_module(tmp_path, made.module("r8169", VERMAGIC, srcversion="NEW"))
    deployment = Deployment(board)
    deployment.check(build)
    assert not deployment.boots(build)
    assert source(board) == "KNOWN"
    running = deployment.start(build)
    assert running.modules["r8169"].srcversion == "NEW"
    assert deployment.start(None).modules["r8169"].srcversion == "KNOWN"
    deployment.start(build)
    assert not deployment.take_back()
    assert source(board) == "KNOWN"
    assert board.booted_by == ["config.txt"], "it was booted"


def test_a_refused_module_is_replaced_by_the_known_good_one(board: CardBoard, tmp_path: Path) -> None:
    build = one_module(tmp_path, made.module("r8169", VERMAGIC, srcversion="refuse"))
    deployment = Deployment(board)
    with pytest.raises(BuildError, match=r"cannot be loaded on pi4b-1 .*: Invalid module format") as caught:
        deployment.start(build)
    assert caught.value.kind == "no driver"
    assert source(board) == "KNOWN"


def test_an_option_that_the_installed_module_does_not_have_is_an_error(board: CardBoard, tmp_path: Path) -> None:
    modinfo = board.folder / "bin" / "modinfo"
    modinfo.write_text('#!/bin/sh\n[ "$*" = "-F parmtype r8169" ] && echo use_dac:int && echo aspm:int\n')
    modinfo.chmod(0o755)
    (tmp_path / "build.yaml").write_text("name: new\noptions: {r8169: {use_dak: 1}}\n")
    build = load_build(str(tmp_path / "build.yaml"))
    message = r"^build new: options: r8169 has no parameter 'use_dak'; accepted: aspm, use_dac$"
    with pytest.raises(ConfigError, match=message):
        Deployment(board).check(build)


def test_an_option_of_a_module_that_the_board_does_not_have_is_an_error(board: CardBoard, tmp_path: Path) -> None:
    built_in = board.folder / f"modules/{RELEASE}/modules.builtin"
    built_in.write_text("kernel/drivers/no-suc.ko\n")
    (built_in.parent / "modules.dep").write_text("kernel/drivers/no-such1.ko.xz: kernel/lib/other.ko.xz\n")
    for text in ("options: {no_such: {debug: 1}}\n", "options: {no-such: {debug: 1}}\ncmdline: quiet\n"):
        (tmp_path / "build.yaml").write_text(f"name: new\n{text}")
        with pytest.raises(
            ConfigError, match=r"^build new: options: pi4b-1 has no module 'no_such'; did you mean 'no_such1'\?$"
        ):
            Deployment(board).check(load_build(str(tmp_path / "build.yaml")))
    built_in.write_text("kernel/drivers/no-such.ko\n")
    Deployment(board).check(load_build(str(tmp_path / "build.yaml")))


def test_options_are_read_back(board: CardBoard, tmp_path: Path) -> None:
    (tmp_path / "build.yaml").write_text("options: {r8169: {use_dac: 1}}\n")
    build = load_build(str(tmp_path / "build.yaml"))
    deployment = Deployment(board)
    deployment.check(build)
    assert deployment.start(build).parameters == {"r8169.use_dac": "1"}
    deployment.take_back()
    assert board.shell.run("cat /sys/module/r8169/parameters/use_dac").returncode != 0


def test_no_option_of_a_module_is_executed_on_the_board(board: CardBoard, tmp_path: Path) -> None:
    # The others are refused when the build is read.
    accepted = [text for text in HOSTILE if re.fullmatch(r"[!-~]{1,200}", text)]
    assert len(accepted) > 20
    options = {f"p{number}": text for number, text in enumerate(accepted)}
    (tmp_path / "build.yaml").write_text(json.dumps({"options": {"r8169": options}}))
    build = load_build(str(tmp_path / "build.yaml"))
    deployment = Deployment(board)
    deployment.check(build)
    running = deployment.start(build)
    deployment.take_back()
    assert running.parameters == {f"r8169.{name}": text for name, text in options.items()}
    assert board.shell.run("ls canary ~/canary /canary 2>/dev/null").stdout == ""


def test_changes_of_a_crashed_run_are_undone_from_the_journal(board: CardBoard, tmp_path: Path) -> None:
    build = one_module(tmp_path, made.module("r8169", VERMAGIC, srcversion="NEW"))
    Deployment(board).start(build)
    assert source(board) == "NEW"
    assert replay(board.shell).done == ("module r8169 of pi4b-1",)
    assert source(board) == "KNOWN"


def test_builds_that_this_board_cannot_run(board: CardBoard, tmp_path: Path) -> None:
    other = one_module(tmp_path, made.module("r8169", made.VERMAGIC))
    with pytest.raises(ConfigError, match=rf"r8169.ko was built for kernel 6.12.25-pinet, and pi4b-1 runs {RELEASE}"):
        Deployment(board).check(other)
    (board.folder / "said" / "modules").write_text("r8169 16384 1 bridge, Live 0x0\n")
    with pytest.raises(UnsupportedError, match="module r8169 of pi4b-1 cannot be unloaded: it is used by bridge"):
        Deployment(board).check(one_module(tmp_path, KNOWN))


# -- in a namespace ---------------------------------------------------------------------------------------------------


class NamespaceBoard:
    """A board that shares this machine's kernel, as in the virtual lab."""

    name, model, boots, has_power, record = "pi4b-1", "pi4b", True, True, None
    boot_timeout_s = 180.0

    def __init__(self, namespace: str) -> None:
        # Its own host name, as every container has.
        self.shell = SshShell(self.name, ["ip", "netns", "exec", namespace, "unshare", "--uts", "/bin/sh", "-c"])

    def reboot(self, command: str) -> None:
        raise AssertionError

    def power_cycle(self) -> None:
        raise AssertionError

    reset = power_cycle

    def lock_for_trial(self) -> None:
        """Take no lock: its power can be switched."""

    def warn(self, warning: str) -> None:
        raise AssertionError(warning)

    def driver(self, name: str) -> None:
        return None


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[NamespaceBoard]:
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    name = f"deploy-{os.getpid()}"
    ip(f"netns add {name}")
    yield NamespaceBoard(name)
    ip(f"netns del {name}")


def test_sysctls_of_a_namespace_are_set_and_restored(shared: NamespaceBoard, tmp_path: Path) -> None:
    (tmp_path / "build.yaml").write_text('sysctls: {net.ipv4.tcp_rmem: "4096 65536 65536", net.ipv4.tcp_sack: 0}\n')
    build = load_build(str(tmp_path / "build.yaml"))
    before = shared.shell.run("cat /proc/sys/net/ipv4/tcp_rmem").stdout
    live = Live(shared, str(tmp_path / "journal"))
    live.check(build)
    live.start(build)
    assert shared.shell.run("cat /proc/sys/net/ipv4/tcp_rmem").stdout.split() == ["4096", "65536", "65536"]
    assert len(list((tmp_path / "journal").iterdir())) == 2
    live.undo()
    assert shared.shell.run("cat /proc/sys/net/ipv4/tcp_rmem").stdout == before
    assert list((tmp_path / "journal").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "options: {r8169: {use_dac: 1}}\n",
            "pi4b-1 shares its kernel with other containers, so its modules cannot be changed; a kernel",
        ),
        (
            "cmdline: quiet\n",
            "pi4b-1 has no config.txt in /boot/firmware, /boot, /boot/efi, /mnt/boot, "
            "/media/mmcblk0p1, /flash: its boot partition is not mounted there",
        ),
    ],
)
def test_a_refusal_in_a_namespace_names_the_emulated_lab(
    shared: NamespaceBoard, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "build.yaml").write_text(text)
    with pytest.raises(UnsupportedError) as refused:
        Deployment(shared).check(load_build(str(tmp_path / "build.yaml")))
    assert str(refused.value).startswith(message)
    assert "--lab emulated" in str(refused.value)


def test_a_sysctl_that_the_kernel_does_not_have_is_an_error_of_the_build(
    shared: NamespaceBoard, tmp_path: Path
) -> None:
    (tmp_path / "build.yaml").write_text("name: new\nsysctls: {net.ipv4.no_such: 1}\n")
    message = r"^build new: sysctls: the kernel of pi4b-1 has no sysctl 'net\.ipv4\.no_such'$"
    with pytest.raises(ConfigError, match=message):
        Deployment(shared).check(load_build(str(tmp_path / "build.yaml")))


@pytest.mark.parametrize(
    ("key", "value", "tuning"), [("rps", "1", "rps"), ("irq", "1", "irq"), ("features", "{tso: on}", "tso")]
)
def test_steering_and_features_of_a_build_are_refused_in_a_lab(
    shared: NamespaceBoard, tmp_path: Path, key: str, value: str, tuning: str
) -> None:
    (tmp_path / "build.yaml").write_text(f"name: new\n{key}: {value}\n")
    message = rf"^build new sets {key}, which works on exact boards only .* a tuning of the test: tuning={{'{tuning}'"
    with pytest.raises(UnsupportedError, match=message):
        Deployment(shared).check(load_build(str(tmp_path / "build.yaml")))


def test_a_sysctl_that_the_kernel_changes_is_named(shared: NamespaceBoard, tmp_path: Path) -> None:
    # The kernel counts this time in its own ticks of 1, 4 or 10 ms, and rounds it up.
    name, path = "net.ipv4.neigh.lo.retrans_time_ms", "/proc/sys/net/ipv4/neigh/lo/retrans_time_ms"
    before = shared.shell.run(f"cat {path}").stdout
    rounded = shared.shell.run(f"echo 2001 > {path}; cat {path}").stdout.strip()
    shared.shell.run(f"echo {before.strip()} > {path}")
    if rounded == "2001":
        pytest.skip("the ticks of this kernel are 1 ms")
    (tmp_path / "build.yaml").write_text(f"name: new\nsysctls: {{{name}: 2001}}\n")
    deployment = Deployment(shared)
    running = deployment.start(load_build(str(tmp_path / "build.yaml")))
    assert running.changed == (f"sysctl {name}: requested '2001', the kernel has '{rounded}'",)
    deployment.take_back()
    assert shared.shell.run(f"cat {path}").stdout == before
