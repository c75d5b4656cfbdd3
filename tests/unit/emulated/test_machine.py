"""Emulated boards in the lab file, and the QEMU command line for them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_pinet.config.labfile import load
from pytest_pinet.emulated.image import COMMANDS, check_commands, prepare, qemu_devices, recipe
from pytest_pinet.emulated.machine import RASPI3B, VIRT, EmulatedMachine, Files, Qmp, command
from pytest_pinet.emulated.rootfs import BUSYBOX, SYSTEMD
from pytest_pinet.errors import ConfigError, LabError
from pytest_pinet.matrix.endpoints import EndpointSelector, NotEnoughNodes
from pytest_pinet.model.lab import Lab
from pytest_pinet.model.topology import parse_topology
from pytest_pinet.virtual.launcher import launcher
from pytest_pinet.virtual.pi_firmware import BootSettings
from pytest_pinet.virtual.requirements import packages_of
from pytest_pinet.virtual.runtime import Runtime
from pytest_pinet.virtual.spec import InterfaceSpec, spec_of
from tests.support.build_files import image

EMULATED = Path(__file__).parents[3] / "lab" / "emulated.yaml"


def changed(tmp_path: Path, old: str, new: str) -> Lab:
    text = EMULATED.read_text()
    assert old in text
    (tmp_path / "lab.yaml").write_text(text.replace(old, new))
    return load(tmp_path / "lab.yaml")


def nic(driver: str, mac: str, speed_mbps: int) -> InterfaceSpec:
    one = spec_of(load(EMULATED)).nodes[0].interfaces[0]
    chip = replace(one.interface.nic, driver=driver)
    return replace(one, mac=mac, interface=replace(one.interface, nic=chip, speed_mbps=speed_mbps))


def qemu(*nics: InterfaceSpec, virtual_clock: bool = True) -> str:
    files = Files("k", "i", "/a,b/card")
    return " ".join(command(VIRT, files, "root=x", nics, "/dev/pts/7", virtual_clock, (5, 6)))


def test_the_lab_file_has_qemu_boards_with_virtual_clocks_and_a_peer_with_a_wall_clock() -> None:
    lab = load(EMULATED)
    assert [(node.name, node.machine, node.clock) for node in lab.nodes.values()] == [
        ("virt-1", "virt", "virtual"),
        ("virt-2", "virt", "virtual"),
        ("raspi3b", "raspi3b", "virtual"),
        ("peer", None, "wall"),
    ]
    assert lab.figures == "emulated"
    assert "counts instructions, not seconds" in lab.meaning
    assert load(EMULATED.with_name("virtual.yaml")).meaning == "sets the rates of its links itself"


def test_a_network_manager_is_for_all_boards_of_the_lab_a_card_with_systemd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = changed(tmp_path, "clock: virtual\n      boot_timeout: 120 s", "manager: dhcpcd")
    assert [spec.node.manager for spec in spec_of(lab).nodes] == [None, None, "dhcpcd", None]
    chosen = []
    monkeypatch.setattr("pytest_pinet.emulated.image.card_image", lambda _, system: chosen.append(system))
    monkeypatch.setattr("pytest_pinet.emulated.image.check_commands", lambda: None)
    monkeypatch.setattr("pytest_pinet.emulated.image.qemu_devices", lambda: ("8.0", VIRT.nics.values()))
    prepare(lab, lambda _: None)
    prepare(load(EMULATED), lambda _: None)
    assert chosen == [SYSTEMD, BUSYBOX]
    assert recipe(SYSTEMD) != recipe(BUSYBOX)


def test_every_board_is_measured_against_a_peer_with_a_wall_clock() -> None:
    lab = load(EMULATED)
    ends = EndpointSelector(lab)
    pair = parse_topology("pair")
    for interface in lab.interfaces():
        if lab.nodes[interface.node].clock == "virtual":
            assert ends.combination(interface, pair).ends[1].node.name == "peer"
    # Measurements in board time say nothing about an end in wall time.
    with pytest.raises(NotEnoughNodes, match="every peer of peer has a virtual clock"):
        ends.combination(lab.nodes["peer"].interfaces[0], pair)


def test_the_spec_for_the_daemon_is_complete() -> None:
    board, *_, peer = spec_of(load(EMULATED)).nodes
    drivers = [one.interface.nic.driver for one in board.interfaces]
    assert (board.node.machine, board.node.clock, drivers) == ("virt", "virtual", ["e1000e", "virtio_net"])
    # Emulated links have no shaper. The peer's link is a wire.
    assert board.interfaces[0].model.shape(BootSettings(0)).tx_bps > 9e10
    assert peer.interfaces[0].model.shape(BootSettings(0)).tx_bps < 1e10


def test_a_new_card_image_does_not_change_the_digest() -> None:
    spec = spec_of(load(EMULATED))
    assert replace(spec, image="/somewhere/card.img").digest == spec.digest


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("machine: virt", "machine: vrit", r":\d+: .*'vrit'.*did you mean 'virt'"),
        ("clock: virtual", "clock: sun", r":\d+: .*clock.*'sun'"),
        ("launcher: virtual\n", "launcher: virtual\n  scale: 0.5\n", "does not support emulated nodes such as"),
        ("launcher: virtual\n", "figures: measured\n", "has the key 'machine', which needs a launcher"),
        ("clock: virtual", "manager: nmcli", r":\d+: .*unknown network manager 'nmcli'; accepted: NetworkManager, "),
        ("boot_timeout: 8 s", "manager: dhcpcd", r"'peer' has the key 'manager', which needs an emulated board; add "),
    ],
)
def test_mistakes_in_the_lab_file_are_named_with_their_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        changed(tmp_path, old, new)


def test_a_nic_that_qemu_does_not_have_is_refused_before_the_start(tmp_path: Path) -> None:
    lab = changed(tmp_path, "driver: e1000e", "driver: bcmgenet")
    with pytest.raises(
        ConfigError,
        match=r"QEMU's machine virt has no NIC for the driver 'bcmgenet'.*cdc_ether, e100, e1000, e1000e, igb",
    ):
        prepare(lab, lambda _: None)


def test_raspi3b_accepts_only_usb_nics(tmp_path: Path) -> None:
    lab = changed(tmp_path, "driver: cdc_ether, bus: usb2", "driver: smsc95xx, bus: usb2")
    with pytest.raises(ConfigError, match=r"QEMU's machine raspi3b has no NIC for the driver 'smsc95xx'.*: cdc_ether$"):
        prepare(lab, lambda _: None)


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_the_lab_is_not_locked_while_the_first_card_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text(EMULATED.read_text())
    lab = load(file)

    def prepared(*_: object) -> Path:
        with Runtime.of(lab.file).locked():
            raise LabError("the lab was not locked")

    monkeypatch.setattr("pytest_pinet.virtual.runtime.LOCK_TIMEOUT_S", 0.5)
    monkeypatch.setattr("pytest_pinet.emulated.image.prepare", prepared)
    with pytest.raises(LabError, match="the lab was not locked"):
        launcher().up(lab)
    assert not Runtime.of(lab.file).path.exists()


def test_a_nic_that_needs_a_newer_qemu_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offered = ("7.2.22", frozenset({"e1000e", "virtio-net-pci", "usb-net"}))
    monkeypatch.setattr("pytest_pinet.emulated.image.check_commands", lambda: None)
    monkeypatch.setattr("pytest_pinet.emulated.image.qemu_devices", lambda: offered)
    monkeypatch.setattr("pytest_pinet.emulated.image.card_image", lambda *_: tmp_path / "card.img")
    assert prepare(load(EMULATED), lambda _: None) == tmp_path / "card.img"
    with pytest.raises(LabError, match=r"QEMU 7\.2\.22 on this machine cannot emulate igb, which"):
        prepare(load(EMULATED.with_name("emulated-igb.yaml")), lambda _: None)


@pytest.mark.smoke  # since `make smoke` installs it
@pytest.mark.skipif(shutil.which("qemu-system-aarch64") is None, reason="QEMU is missing")
def test_the_devices_of_the_installed_qemu_are_read() -> None:
    version, found = qemu_devices()
    assert re.fullmatch(r"[0-9]+\.[0-9.]+", version)
    assert all(device in found for device in ("e1000e", "virtio-net-pci", "usb-net"))
    assert ("igb" in found) == (int(version.partition(".")[0]) >= 8)


def test_a_failing_qemu_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "qemu-system-aarch64").write_text("#!/bin/sh\necho 'failed to open module: x.so' >&2\nexit 134\n")
    (tmp_path / "qemu-system-aarch64").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(LabError, match=r"-device help` failed with exit code 134: failed to open module: x\.so"):
        qemu_devices()


def test_missing_tools_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_pinet.virtual.requirements.search_path", lambda: "/nowhere")
    with pytest.raises(LabError, match=r"emulated boards need depmod, mcopy, .*qemu-system-aarch64") as caught:
        check_commands()
    assert all(package in str(caught.value) for package in packages_of(COMMANDS).values())


def test_a_virtual_clock_needs_one_processor_and_counts_instructions() -> None:
    assert "-accel tcg,tb-size=128 -smp 1 -icount shift=4,sleep=on" in qemu()
    assert "-smp 2" in qemu(virtual_clock=False)
    assert "icount" not in qemu(virtual_clock=False)


def test_each_driver_gets_its_qemu_device_without_a_boot_rom() -> None:
    nics = [
        nic("e1000e", "02:00:00:00:00:01", 1000),
        nic("virtio_net", "02:00:00:00:00:02", 10000),
        nic("cdc_ether", "02:00:00:00:00:03", 1000),
    ]
    line = qemu(*nics)
    assert "-device e1000e,id=dev0,netdev=nic0,mac=02:00:00:00:00:01,romfile= " in line
    assert "virtio-net-pci,id=dev1,netdev=nic1,mac=02:00:00:00:00:02,speed=10000,duplex=full,romfile=" in line
    assert line.index("qemu-xhci") < line.index("usb-net,id=dev2")
    assert "qemu-xhci" not in qemu(*nics[:2])


def test_raspi3b_has_an_sd_card_and_all_nics_on_one_usb_hub() -> None:
    nics = [nic("cdc_ether", "02:00:00:00:00:01", 100)]
    files = Files("k", "i", "/card", "/device-tree")
    line = " ".join(command(RASPI3B, files, RASPI3B.cmdline.strip(), nics, "/dev/pts/7", True, (5, 6)))
    assert "-machine raspi3b -m 1024M " in line
    assert "-smp 4 -icount" in line
    assert "-append console=ttyS1,115200 root=/dev/mmcblk0p2 rootfstype=ext4 rootwait " in line
    assert "-dtb /device-tree " in line
    assert "-drive if=sd,format=raw" in line
    assert "-serial null -serial chardev:console -device usb-hub,port=1 " in line
    assert "usb-net,netdev=mgmt,mac=52:54:00:12:34:56,port=1.2 " in line
    assert line.endswith("usb-net,id=dev0,netdev=nic0,mac=02:00:00:00:00:01,port=1.1")
    assert "virtio" not in line


def test_qemu_ends_when_the_guest_reboots_and_commas_in_paths_are_escaped() -> None:
    line = qemu()
    assert " -no-reboot " in line
    assert "file=/a,,b/card" in line


@pytest.mark.parametrize(
    ("pages", "processor"), [(None, "cortex-a72"), (4, "cortex-a72"), (16, "cortex-a76"), (64, "cortex-a72")]
)
def test_the_pages_of_a_kernel_choose_the_processor(pages: int | None, processor: str) -> None:
    """A Cortex-A72 has no pages of 16 KiB: such a kernel would stop there without a word."""
    argv = command(
        VIRT.for_kernel(image(pages_kib=pages)), Files("k", "i", "/card"), "", [], "/dev/pts/7", True, (5, 6)
    )
    assert argv[argv.index("-cpu") + 1] == processor


def test_raspi3b_refuses_a_kernel_whose_pages_its_processor_does_not_have() -> None:
    assert RASPI3B.for_kernel(image(pages_kib=4)) is RASPI3B
    assert "-cpu" not in command(RASPI3B, Files("k", "i", "/card"), "", [], "/dev/pts/7", True, (5, 6))
    with pytest.raises(
        LabError, match=r"^the kernel has pages of 16 KiB, but the processor of raspi3b has none of this"
    ):
        RASPI3B.for_kernel(image(pages_kib=16))


@pytest.mark.parametrize("machine", [VIRT, RASPI3B])
def test_a_board_that_shares_its_port_has_no_nic_for_ssh(machine: EmulatedMachine) -> None:
    nics = [nic("cdc_ether", "02:00:00:00:00:01", 100)]
    words = (machine, Files("k", "i", "/card"), "root=x", nics, "/dev/pts/7", True, (5, 6))
    assert "mgmt" in " ".join(command(*words))
    assert "mgmt" not in " ".join(command(*words, management=False))


GREETING: Mapping[str, Any] = {"QMP": {"version": {}}}


def exchange(
    answers: Callable[[str], list[Mapping[str, Any] | None]], commands: list[str]
) -> tuple[list[str], list[tuple[str, Mapping[str, Any]]]]:
    """Return the result of each command, and the events.

    The far end sends the results of ``answers`` (None: it ends).
    """
    events: list[tuple[str, Mapping[str, Any]]] = []

    async def far_end(sock: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=sock)
        writer.write(json.dumps(GREETING).encode() + b"\r\n")
        while line := await reader.readline():
            for answer in answers(json.loads(line)["execute"]):
                if answer is None:
                    writer.close()
                    return
                writer.write(json.dumps(answer).encode() + b"\r\n")
        writer.close()

    async def run() -> list[str]:
        ours, theirs = socket.socketpair()
        for sock in (ours, theirs):
            sock.setblocking(False)
        server = asyncio.get_running_loop().create_task(far_end(theirs))
        qmp = Qmp(lambda name, data: events.append((name, data)))
        found = []
        try:
            await qmp.connect(ours)
            for command in commands:
                try:
                    found.append(str(await qmp.run(command)))
                except LabError as error:
                    found.append(str(error))
        finally:
            qmp.close()
            await server
        return found

    return asyncio.run(asyncio.wait_for(run(), 10)), events


def test_events_do_not_disturb_the_order_of_answers() -> None:
    event = {"event": "SHUTDOWN", "data": {"guest": True, "reason": "guest-reset"}}
    found, events = exchange(lambda command: [event, {"return": command}], ["a", "b"])
    assert found == ["a", "b"]
    assert events == [("SHUTDOWN", {"guest": True, "reason": "guest-reset"})] * 3


def test_an_error_answer_is_raised_with_its_text() -> None:
    def answers(command: str) -> list[Mapping[str, Any] | None]:
        return [{"return": {}} if command == "qmp_capabilities" else {"error": {"desc": "Device 'x' not found"}}]

    assert exchange(answers, ["set_link"])[0] == ["QEMU refused the command set_link: Device 'x' not found"]


def test_a_command_fails_when_qemu_ends() -> None:
    def answers(command: str) -> list[Mapping[str, Any] | None]:
        return [{"return": {}} if command == "qmp_capabilities" else None]

    assert "QEMU has ended" in exchange(answers, ["stop"])[0][0]


def test_a_connection_fails_when_qemu_ends_at_once() -> None:
    with pytest.raises(LabError, match="QEMU has ended"):
        exchange(lambda _: [None], [])
