"""The two power protocols of the virtual lab, through labgrid's own drivers as its exporter announces them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest
import yaml

from pytest_pinet.virtual.runtime import status
from tests.support.small_virtual_lab import LAB_FILE, Bench, bench_up
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")]

OUTLETS = {"left": "rest", "right": "shelly_gen2"}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    text = LAB_FILE.replace("right:\n", "right:\n      outlet: shelly_gen2\n")
    with bench_up(tmp_path_factory.mktemp("power"), text) as found:
        yield found


@pytest.fixture(autouse=True)
def whole(bench: Bench) -> Iterator[None]:
    yield
    bench.restore()


def power(bench: Bench, node: str, action: str) -> str:
    """Run ``on``, ``off`` or ``get`` through labgrid's NetworkPowerDriver. Return its result."""
    resource = yaml.safe_load((bench.runtime.path / "exporter.yaml").read_text())[node]["NetworkPowerPort"]
    config = {"targets": {"main": {"resources": {"NetworkPowerPort": resource}, "drivers": {"NetworkPowerDriver": {}}}}}
    file = bench.runtime.path.parent / f"{node}-power.yaml"
    file.write_text(yaml.safe_dump(config))
    script = (
        "import sys; from labgrid import Environment; t = Environment(sys.argv[1]).get_target('main');"
        "d = t.get_driver('NetworkPowerDriver'); print(getattr(d, sys.argv[2])())"
    )
    argv = [sys.executable, "-c", script, str(file), action]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    finally:
        file.unlink()
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def is_on(bench: Bench, node: str) -> bool:
    """Return whether the node is on, independent of its outlet's answer."""
    found = status(bench.lab.file)
    assert found is not None
    states = {n["name"]: n["power"] for n in found["nodes"]}
    return bool(states[node] == "on")


@pytest.mark.parametrize(("node", "model"), OUTLETS.items())
def test_labgrids_driver_switches_the_power_of_a_node(bench: Bench, node: str, model: str) -> None:
    resource = yaml.safe_load((bench.runtime.path / "exporter.yaml").read_text())[node]["NetworkPowerPort"]
    assert resource["model"] == model
    assert (power(bench, node, "get"), is_on(bench, node)) == ("False", False)
    power(bench, node, "on")
    assert (power(bench, node, "get"), is_on(bench, node)) == ("True", True)
    wait_until(f"ssh of {node}", lambda: bench.answers(node))
    power(bench, node, "off")
    assert (power(bench, node, "get"), is_on(bench, node)) == ("False", False)
    assert not bench.answers(node)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"id": 1, "method": "Switch.Set", "params": {"id": 99, "on": true}}', 200),
        (b'{"id": 1, "method": "Sys.Reboot"}', 200),
        (b"[]", 400),
        (b"no json", 400),
    ],
)
def test_a_broken_request_switches_nothing(bench: Bench, body: bytes, code: int) -> None:
    request = Request(f"http://127.0.0.1:{bench.ports()['pdu']}/rpc", data=body, method="POST")
    if code == 400:
        with pytest.raises(OSError, match="HTTP Error 400"):
            urlopen(request, timeout=5)
    else:
        with urlopen(request, timeout=5) as answer:
            assert b'"error"' in answer.read()
