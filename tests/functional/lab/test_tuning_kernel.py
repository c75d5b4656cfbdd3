"""Settings on a device of a real kernel, in a network namespace: which it accepts, reports and restores."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_pinet.errors import InvalidMeasurement
from pytest_pinet.model.tuning import SettingOutcome, Tuned
from pytest_pinet.tuning.change import apply, check_effect
from pytest_pinet.tuning.journal import replay
from pytest_pinet.tuning.registry import setting as find_setting
from pytest_pinet.tuning.setting import SettingPlace
from tests.support.namespaces import NamespaceShell, ip

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(shutil.which("ethtool") is None and not Path("/usr/sbin/ethtool").exists(), reason="no ethtool"),
]


class Node:
    """A namespace with eth0, cabled to eth0 of another one."""

    def __init__(self, name: str, number: int, journal: Path) -> None:
        self.shell = NamespaceShell(name, f"pinet-{os.getpid()}-{name}")
        self.place = SettingPlace(self.shell, "eth0", f"{name}:onboard", name, (f"198.18.0.{3 - number}",))
        self.journal = str(journal / name)
        self._undo: list[Callable[[], object]] = []

    def apply(self, name: str, value: object) -> Tuned:
        setting = find_setting(name)
        return apply(
            setting, self.place, setting.parse(value), lambda _w, step, _n: self._undo.append(step), self.journal
        )

    def effect(self, tuned: Tuned) -> Tuned:
        return check_effect(find_setting(tuned.name), self.place, tuned)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()

    def state(self) -> str:
        return self.shell.run(
            "cat /sys/class/net/eth0/mtu; ethtool -k eth0; tc qdisc show dev eth0;"
            " cat /proc/sys/net/ipv4/tcp_*mem /proc/sys/net/ipv4/tcp_congestion_control"
        ).stdout


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    """Yield two nodes with a cable between them."""
    made = (Node("left", 1, tmp_path), Node("right", 2, tmp_path))
    spaces = [node.shell.namespace for node in made]
    try:
        for space in spaces:
            ip(f"netns add {space}")
        ip(f"link add eth0 netns {spaces[0]} type veth peer name eth0 netns {spaces[1]}")
        for number, space in enumerate(spaces, 1):
            ip(f"-n {space} addr add 198.18.0.{number}/24 dev eth0")
            ip(f"-n {space} link set eth0 up")
        yield made
    finally:
        for space in spaces:
            ip(f"netns del {space}")


def test_every_setting_gets_its_original_value_back(nodes: tuple[Node, Node]) -> None:
    node, _ = nodes
    before = node.state()
    outcomes = {
        name: node.apply(name, value)
        for name, value in {"mtu": 9000, "tso": "off", "sg": "off", "congestion": "reno", "tcp_buffers": "2M",
                            "qdisc": "pfifo"}.items()
    }  # fmt: skip
    assert {name: one.outcome for name, one in outcomes.items()} == dict.fromkeys(outcomes, SettingOutcome.APPLIED)
    changed = node.state()
    assert "qdisc pfifo " in changed
    # Without scatter-gather there is no segmentation offload.
    assert "generic-segmentation-offload: off" in changed
    node.undo()
    assert node.state() == before
    assert replay(node.shell, node.journal).done == ()


def test_the_journal_alone_undoes_the_changes_of_a_dead_process(nodes: tuple[Node, Node]) -> None:
    node, _ = nodes
    before = node.state()
    for name, value in {"mtu": 4000, "sg": "off", "tcp_buffers": "1M", "qdisc": "pfifo"}.items():
        node.apply(name, value)
    assert len(replay(node.shell, node.journal).done) == 4
    assert node.state() == before


def test_frames_of_an_mtu_must_reach_the_far_end(nodes: tuple[Node, Node]) -> None:
    near, far = nodes
    one = near.apply("mtu", 9000)
    with pytest.raises(InvalidMeasurement, match="packets of 9000 bytes from left:onboard do not reach"):
        near.effect(one)
    other = far.apply("mtu", 9000)
    assert near.effect(one).outcome is far.effect(other).outcome is SettingOutcome.APPLIED


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("ring_rx", 512, "'ethtool -g eth0': Operation not supported"),
        ("eee", "off", "'ethtool --show-eee eth0': Operation not supported"),
        ("flow_control", "on", "'ethtool -a eth0': Operation not supported"),
        ("rx_usecs", 5, "'ethtool -c eth0': Operation not supported"),
        ("irq", 0, "no interrupt in /proc/interrupts belongs to eth0"),
        ("lro", "on", "large-receive-offload of eth0 is always off ([fixed])"),
        ("congestion", "hybla2", "No such file or directory"),
        ("qdisc", "no_such_kind", "Specified qdisc kind is unknown"),
    ],
)
def test_settings_that_a_namespace_lacks_are_unsupported(
    nodes: tuple[Node, Node], name: str, value: object, why: str
) -> None:
    node, _ = nodes
    before = node.state()
    tuned = node.apply(name, value)
    assert (tuned.outcome, tuned.why) == (SettingOutcome.UNSUPPORTED, why)
    node.undo()
    assert node.state() == before
