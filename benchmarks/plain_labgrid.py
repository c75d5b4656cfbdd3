"""The same steps with labgrid's own drivers, without a strategy, as its documentation shows."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from benchmarks.steps import StopWatch

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def main(dut: str, peer: str) -> None:
    """Print the seconds of each step. ``dut`` and ``peer`` are places."""
    watch = StopWatch()
    from labgrid import target_factory
    from labgrid.driver import NetworkPowerDriver, ShellDriver, SSHDriver
    from labgrid.remote.client import start_session
    from labgrid.remote.generated import labgrid_coordinator_pb2 as pb
    from labgrid.resource import EthernetPort, RemotePlace
    from labgrid.resource.remote import RemotePlaceManager

    # Without these, labgrid cannot bind a place that has Ethernet ports.
    EthernetPort.__hash__ = object.__hash__
    EthernetPort.__eq__ = object.__eq__
    arguments = argparse.Namespace(place=None, allow_unmatched=True, kick=False)
    session = start_session(os.environ["LG_COORDINATOR"], extra={"args": arguments})
    run = session.loop.run_until_complete
    # One session for places and resources, as in labgrid-client.
    manager = RemotePlaceManager.get()
    manager.session, manager.loop, manager.url, manager.env = session, session.loop, session.address, None
    watch.lap("session")
    targets: list[Any] = []
    for place in (dut, peer):
        run(session.stub.AcquirePlace(pb.AcquirePlaceRequest(placename=place)))
    for place in (dut, peer):
        target = target_factory.make_target(place, {"resources": [{"RemotePlace": {"name": place}}], "drivers": {}})
        assert target.get_resource(RemotePlace)
        power = target_factory.make_driver(target, "NetworkPowerDriver", None, {})
        target_factory.make_driver(target, "SerialDriver", None, {})
        shell = target_factory.make_driver(
            target,
            "ShellDriver",
            None,
            {
                "prompt": r"(?:\x1b\[[?]2004h)?root@\S+:.*# ",
                "login_prompt": " login: ",
                "username": "root",
                "password": os.environ["LG_CONSOLE_PASSWORD"],
            },
        )
        ssh = target_factory.make_driver(target, "SSHDriver", None, {"keyfile": os.environ["LG_KEYFILE"]})
        assert isinstance(power, NetworkPowerDriver)
        assert isinstance(shell, ShellDriver)
        assert isinstance(ssh, SSHDriver)
        target.activate(power)
        power.on()
        target.activate(shell)
        target.activate(ssh)
        targets.append((target, power, ssh))
    _link(targets)
    watch.lap("off to checked link")
    targets[0][2].run_check("uname -srvm")
    targets[0][2].run_check("ethtool -i eth0")
    watch.lap("evidence")
    _link(targets)
    watch.lap("next link on booted nodes")
    for target, power, ssh in targets:
        target.deactivate(ssh)
        power.off()
        target.cleanup()
    for place in (dut, peer):
        run(session.stub.ReleasePlace(pb.ReleasePlaceRequest(placename=place)))
    run(session.sync_with_coordinator())
    watch.lap("leave")
    watch.print()
    sys.stdout.flush()
    # labgrid's session has no quick orderly shutdown. Nothing of it outlives the process.
    os._exit(0)


def _link(targets: list[Any]) -> None:
    """Add addresses to both ends, read the link state, ping, and remove the addresses."""
    for number, (_, _, ssh) in enumerate(targets, 1):
        ssh.run_check("ip link set eth0 up")
        ssh.run_check(f"ip addr add 198.19.255.{number}/30 dev eth0")
    for _, _, ssh in targets:
        for _ in range(50):
            if ssh.run("cat /sys/class/net/eth0/carrier")[0] == ["1"]:
                break
        ssh.run_check("cat /sys/class/net/eth0/speed")
        ssh.run_check("cat /sys/class/net/eth0/duplex")
        ssh.run_check("cat /sys/class/net/eth0/mtu")
        ssh.run_check("cat /proc/sys/net/ipv4/tcp_timestamps")
    targets[0][2].run_check("ping -n -q -c 1 -W 1 198.19.255.2")
    for number, (_, _, ssh) in enumerate(targets, 1):
        ssh.run_check(f"ip addr del 198.19.255.{number}/30 dev eth0")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
