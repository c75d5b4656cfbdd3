"""The page of all messages: which group of causes a message belongs to, its cause and its cure.

A test finds messages that belong to no group. The first group that fits a message has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch
from typing import NamedTuple

from tools.site.markdown import code, plain, table
from tools.site.messages import Message, messages


class Group(NamedTuple):
    """Messages of these errors from these modules (globs) have one family of causes."""

    title: str
    errors: tuple[str, ...]
    modules: tuple[str, ...]
    cause: str
    cure: str

    def has(self, message: Message) -> bool:
        """Return whether a message belongs here."""
        return message.error in self.errors and any(fnmatch(message.path, module) for module in self.modules)


ANY = ("*",)
GROUPS = (
    Group(
        "The virtual lab does not start or answer",
        (
            "LabError",
            "CoordinatorError",
        ),
        (
            "virtual/*",
            "cli/lab.py",
        ),
        "This machine lacks something that the virtual lab needs: root, a command, a feature of the kernel, a free "
        "port. Or a lab of an earlier run is still there.",
        "`pinet lab down`, then once more. Install what the message names. Without root or sudo, the lab cannot run.",
    ),
    Group(
        "An emulated board does not start",
        ("LabError",),
        ("emulated/*", "execution/shell.py"),
        "QEMU or a tool is missing or too old, apt has no lists of Debian packages, or the disk is full.",
        "`apt-get update`, then install `qemu-system-arm mtools dosfstools e2fsprogs kmod`. Delete "
        "`~/.cache/pinet/emulated` if a card is damaged; it is made again.",
    ),
    Group(
        "A commit of a kernel tree cannot be built on this machine",
        ("LabError",),
        ("tree/*", "cli/bisect.py"),
        "A program is missing, the disk of the cache is full, a compiler was killed because memory ran out, or the "
        "repository is a partial clone that lacks files of the commit.",
        "Install what the message names. Delete `~/.cache/pinet/trees` to free its space; it is made again.",
    ),
    Group(
        "An exact board does not start",
        ("LabError",),
        ("exact/*",),
        "QEMU is missing, `PINET_QEMU` names no QEMU, the disk of the cache is full, or QEMU ended early.",
        "Install `qemu-system-arm`. Run the command once more; if its boots end early again, delete "
        "`~/.cache/pinet/exact`, which is made again.",
    ),
    Group(
        "The labgrid coordinator or exporter does not answer",
        ("CoordinatorError",),
        ANY,
        "The service is down, its address is wrong, or the network to it is interrupted. The result is an error, "
        "never a regression.",
        "Start `labgrid-coordinator` and `labgrid-exporter`; check `coordinator_address` of the lab file or "
        "`$LG_COORDINATOR`. `labgrid-client places` must answer.",
    ),
    Group(
        "No lease of a node",
        ("LeaseError",),
        ANY,
        "Another run, another user or a worker holds the node, or the place does not exist.",
        "Wait longer with `--pinet-acquire-timeout=90min`, or ask the holder that the message names. `labgrid-client "
        "who` lists all. A dead run frees its nodes within 30 seconds.",
    ),
    Group(
        "Power",
        ("PowerError",),
        ANY,
        "The power switch does not answer, refuses, or reports success and changes nothing.",
        "Try it by hand: `labgrid-client -p PLACE power get`. Check address, index and password of the outlet.",
    ),
    Group(
        "Serial console",
        ("ConsoleError",),
        ANY,
        "No login on the serial console: wrong cable or speed, another program holds the port, a wrong prompt or "
        "password in the lab file, or the board does not boot.",
        "`labgrid-client -p PLACE console` shows what the board prints. `enable_uart=1` must be in config.txt. The "
        "whole console of a run is in `.pinet/runs/RUN/console/`.",
    ),
    Group(
        "Shutdown before a reboot or a power cut",
        ("ShutdownError",),
        ANY,
        "The running system did not shut down in time, or pinet cannot log in to ask for it. Its power is not cut, "
        "because that can damage the card.",
        "Log in and look at what hangs (`systemctl list-jobs`). Check that the user may use sudo without a password.",
    ),
    Group(
        "ssh",
        ("SshError",),
        ANY,
        "The node does not answer, the key is refused, or the connection broke during a test.",
        "`ssh -i KEY USER@ADDRESS true` must work without a question. If it breaks only under traffic, ssh and the "
        "test share the NIC: see `management:` in [labs](reference/lab.md).",
    ),
    Group(
        "Switch",
        ("SwitchError",),
        ANY,
        "The switch does not answer, refuses a change, or confirms a change and does not do it. Each change is read "
        "back.",
        "Check address, community or user, and the names of the ports. `pinet doctor` shows what the switch can do. A "
        "switch that cannot be changed works with `backend: fixed`.",
    ),
    Group(
        "Link that drops again",
        ("DroppedLink",),
        ANY,
        "Only the link of the device under test dropped, and again on a fresh link-up, or it did not come back within "
        "12 s. The cause is its NIC, its driver, its cable or its port. The test fails.",
        "Change the cable and the port. If the link still drops, try a build that is known to be good (`pinet gate`). "
        "`max_drops` allows more drops.",
    ),
    Group(
        "Link, cable and addresses",
        ("LinkError",),
        ANY,
        "No carrier, a wrong cable, an address that is not reached, or a program on the board that configures the NIC.",
        "`pinet discover` shows which NIC is on which switch port. `ethtool DEVICE` on the board shows carrier and "
        "speed. For programs on the board, see [network managers](reference/power-and-login.md#network-managers).",
    ),
    Group(
        "Traffic tools",
        ("TrafficError", "ToolError"),
        ANY,
        "iperf3, nginx, wrk or ping is missing, failed, or its output cannot be trusted.",
        "`apt install iperf3` on both ends (3.12 or newer). The tools' own output is in `.pinet/latest/raw/`.",
    ),
    Group(
        "The build under test is at fault",
        (
            "BuildError",
            "BuildMismatch",
        ),
        ANY,
        "The build is for another processor, does not boot, lacks its driver, or another build runs than the "
        "requested one. The board is back on its known-good build.",
        "Read the console lines under the message. [Builds under test](reference/builds.md) says what a build needs.",
    ),
    Group(
        "The kernel broke while a test ran",
        ("KernelError",),
        ANY,
        "A panic, oops, hung task or watchdog of the device under test. The change is at fault.",
        "The console lines are in the result and in `.pinet/latest/console/`.",
    ),
    Group(
        "A build changed while it was measured",
        ("ChangedBuildError",),
        ANY,
        "Something wrote to the files of the build during the run, usually `make` in the same tree.",
        "Gate a copy of the folder, or leave the tree alone until the gate ends.",
    ),
    Group(
        "This hardware cannot do it (skipped)",
        (
            "CapabilityError",
            "TagsLostError",
            "QuarantineError",
        ),
        ANY,
        "The switch, the port or the way of management lacks what the test needs, or a node is out of service. The "
        "test is skipped, never green.",
        "Nothing, or another lab. `pinet matrix` lists what this lab can measure and why not the rest. "
        "`--pinet-require N` fails a run that measured too little.",
    ),
    Group(
        "An exact board cannot judge this build (skipped)",
        ("UnfitBuildError",),
        ANY,
        "The build has no driver for the NIC of the board, or changes no module that the board loads. The other boards "
        "judge it. If no board can, `pinet gate` says so and ends with 4.",
        "Nothing, or `--nic`, which chooses the boards.",
    ),
    Group(
        "A feature is missing",
        ("UnsupportedError",),
        ANY,
        "A version is too old, a program is not installed, or this board cannot take a build.",
        "Do what the message names. For boards, `pinet doctor --tryboot` proves the way of a build beforehand.",
    ),
    Group(
        "The value must not be judged (invalid)",
        ("InvalidMeasurement",),
        ANY,
        "A precondition did not hold: speed, duplex, MTU, NIC, driver, byte counts, throttling. The value may be "
        "right or wrong, so it blames no change.",
        "Repair what the message names, and repeat. [A flaky lab](how-to/flaky-lab.md)",
    ),
    Group(
        "No verdict was certain (inconclusive)",
        ("Inconclusive",),
        ANY,
        "The budget of traffic is used up, and the values vary too much. The message names the noise, and the margin "
        "at which a verdict would be possible.",
        "[Calibrate](how-to/calibrate.md), allow more traffic (`--pinet-profile=soak`), or judge by [two builds in "
        "turn](how-to/gate-a-change.md).",
    ),
    Group(
        "Deploying a build, and undoing it",
        ("LabError",),
        (
            "lab/deploy/*",
            "ab/*",
        ),
        "A board refused a step of a deployment, or the known-good build itself has a fault.",
        "Nothing is lost: the next run that leases the board undoes the rest. `pinet doctor NODE` shows its state.",
    ),
    Group(
        "The kernel's selftests on a link",
        ("LabError",),
        ("measure/kselftest*", "lab/relay.py"),
        "A selftest printed no TAP, did not end, or could not be installed on the board or removed from it.",
        "Read `kselftest.ktap` of the result. The board needs python3 with PyYAML, tar and space in `/tmp`; see "
        "[the kernel's selftests](how-to/kernel-selftests.md).",
    ),
    Group(
        "pinet init and pinet demo",
        ("LabError",),
        ("init/*", "cli/init.py", "cli/demo.py"),
        "What was found does not suffice for a lab file: no wired way between the two ends, a NIC below a bridge, "
        "no root rights, a system that is not supported.",
        "Do what the message names, or choose with the options `--peer` and `--interface`. Nothing was changed.",
    ),
    Group(
        "Settings and evidence on a node",
        ("LabError",),
        ("lab/link/*", "lab/node/*", "lab/console/*", "lab/ssh.py", "tuning/*", "doctor/*", "watch/*"),
        "A command on a node failed or changed nothing: a missing tool, missing rights, or a console that is too slow.",
        "Try the command by hand on the node. `pinet doctor` checks root rights and tools.",
    ),
)


def group_of(message: Message) -> Group | None:
    """Return the group of a message."""
    return next((group for group in GROUPS if group.has(message)), None)


def troubles() -> str:
    """Return a section for each group, with all its messages."""
    found = messages()
    return "\n".join(section(group, [one for one in found if group_of(one) is group]) for group in GROUPS)


def section(group: Group, found: Sequence[Message]) -> str:
    """Return the section of a group with these messages."""
    names = ", ".join(code(name) for name in group.errors)
    text = f"## {group.title}\n\n{names}\n\n**Cause.** {group.cause}\n\n**Cure.** {group.cure}\n"
    head = ["message", "what it says to do"] if any(one.act for one in found) else ["message"]
    rows = table(head, [[code(one.text.replace("`", "'")), plain(one.act)][: len(head)] for one in found])
    return f"{text}\n{rows}" if rows else text
