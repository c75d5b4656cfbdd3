"""A board on a desk, with ssh and nothing else: leased by its lock, rebooted over ssh, unplugged by a person."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_pinet.builds.load import load_build
from pytest_pinet.config.labfile import load
from pytest_pinet.errors import BuildError, SshError
from pytest_pinet.lab.deploy import board as deploy_board
from pytest_pinet.lab.deploy.trial_guard import PATH
from pytest_pinet.lab.labgrid.identity import Identity
from pytest_pinet.lab.node import node_session, unpowered
from pytest_pinet.lab.node.node_session import NodeSession
from pytest_pinet.lab.session import LabSession
from tests.support.card_board import CardBoard, card_board

LAB = """\
imports:
  - pytest_pinet.lab.drivers
targets:
  pi:
    resources:
      NetworkService: {{address: 127.0.0.1, port: {port}, username: root}}
    drivers:
      PiSSHDriver: {{keyfile: {key}}}
      PiStrategy: {{}}
pinet:
  switches:
    cable: {{backend: fixed, ports: [pi]}}
  nodes:
    pi: {{board: pi4b, boot_timeout: 6 s, interfaces: {{onboard: {{port: cable/pi}}}}}}
"""


@contextmanager
def obedient(board: CardBoard) -> Iterator[None]:
    """Reboot the board whenever a command on the board requests it."""
    over = threading.Event()

    def obey() -> None:
        while not over.wait(0.1):
            board.obey()

    thread = threading.Thread(target=obey)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def board(tmp_path: Path) -> Iterator[CardBoard]:
    with card_board(tmp_path / "board") as made, obedient(made):
        yield made


@pytest.fixture
def told() -> list[str]:
    """The sentences that the user sees during the run."""
    return []


@pytest.fixture
def lab(board: CardBoard, tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[LabSession]:
    monkeypatch.setattr(node_session, "SSH_TIMEOUT_S", 1.0)
    monkeypatch.setattr(unpowered, "STEP_S", 1.0)
    monkeypatch.setattr(unpowered, "silence_of", lambda _: 1.0)
    monkeypatch.setattr(unpowered, "HAND_S", 5.0)
    monkeypatch.setattr(deploy_board, "GONE_TIMEOUT_S", 1.0)
    file = tmp_path / "desk.yaml"
    file.write_text(LAB.format(port=board.port, key=board.folder / "key"))
    session = LabSession(load(file), Identity.of_this_process(), 5.0, told.append)
    try:
        yield session
    finally:
        assert session.close() == []
        assert not lock_of(board).exists()


def lock_of(board: CardBoard) -> Path:
    return board.folder / "var/pinet-lease/lock"


@pytest.fixture
def get(lab: LabSession) -> Callable[..., NodeSession]:
    def get(reset: bool = False) -> NodeSession:
        (session,) = lab._pool.get([lab.lab.nodes["pi"]], 5.0, reset)
        return session

    return get


def test_it_is_leased_and_rebooted_over_ssh(board: CardBoard, get: Callable[..., NodeSession]) -> None:
    session = get()
    assert session.shell.run("echo $((6*7))").stdout == "42\n"
    assert str(Identity.of_this_process()) in lock_of(board).read_text()
    before = session.shell.run("cat /proc/sys/kernel/random/boot_id").stdout
    assert get() is session
    assert session.shell.run("cat /proc/sys/kernel/random/boot_id").stdout == before
    assert get(reset=True) is session
    assert session.shell.run("cat /proc/sys/kernel/random/boot_id").stdout not in (before, "")
    assert board.booted_by == ["config.txt", "config.txt"]
    assert str(Identity.of_this_process()) in lock_of(board).read_text()


def test_a_trial_starts_the_guard_and_leaves_nothing(
    board: CardBoard, get: Callable[..., NodeSession], tmp_path: Path
) -> None:
    before = board.files()
    session = get()
    (tmp_path / "build.yaml").write_text("name: same\ncmdline: same=1\n")
    build = load_build(str(tmp_path / "build.yaml"))
    session.deployment.check(build)
    assert "pi has neither power control nor a hardware watchdog" in session.deployment.risk(build)
    running = session.deployment.start(build)
    assert {"same=1", f"init={PATH}", "panic=10"} <= set(running.cmdline.split())
    assert session.shell.run(f"sh -n {PATH} && tail -n 1 {PATH}").stdout == 'exec /sbin/init "$@"\n'
    assert session.deployment.start(None).marker is None
    assert not session.deployment.take_back()
    assert session.shell.run(f"ls {PATH}").returncode != 0
    after = {name: data for name, data in board.files().items() if "pinet-lease" not in name}
    assert after == before


def test_a_person_unplugs_a_board_that_hangs(
    board: CardBoard, get: Callable[..., NodeSession], tmp_path: Path, told: list[str]
) -> None:
    session = get()
    (tmp_path / "build.yaml").write_text("name: hangs\ncmdline: hang=1\n")
    build = load_build(str(tmp_path / "build.yaml"))
    session.deployment.check(build)
    board.broken.add("hang=1")

    def plug_in(text: str) -> None:
        told.append(text)
        if "unplug" in text and not board.powered:
            board.power_cycle()

    session.announce = plug_in
    with pytest.raises(BuildError, match="hangs does not come up on pi, but the known-good build does") as caught:
        session.deployment.start(build)
    assert caught.value.kind == "no login"
    assert "no power control: unplug pi and plug it in again; waiting up to 11 s for it" in told
    assert not session.deployment.take_back()


def test_a_board_that_stays_silent_is_named(
    board: CardBoard, get: Callable[..., NodeSession], told: list[str], lab: LabSession
) -> None:
    session = get()
    board.power_off()
    lab._pool.distrust(session.node)
    with pytest.raises(SshError, match=r"pi does not answer over ssh: .*after the request to unplug it") as caught:
        get()
    assert caught.value.act == "connect a screen or a serial console to pi to see why"
    assert any(text.startswith("no power control: unplug pi and plug it in again; waiting up to") for text in told)
    board.power_cycle()
