"""Reads which user processes of an end, other than ours, used its processors; and how long a quota stopped them.

These processes are ours: this run (its process, or its ssh session at an end), processes with the mark of a run or a
lab of pytest-pinet in their environment, and everything that any of these started. The parents of this run only wait,
so they are ours, too. Other children of these parents are not. Kernel threads are left out, because a driver that
burns a CPU in a kernel thread must not excuse itself.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_pinet.evidence.counting import is_count
from pytest_pinet.evidence.sources import EvidenceSource, Texts
from pytest_pinet.model.evidence import EndEvidence, OtherWork, Program

# /proc/PID/stat counts in units of 1/100 s on all Linux machines (USER_HZ).
TICKS_PER_S = 100
# In a shorter time one tick would be a share that means nothing.
LEAST_WINDOW_S = 1.0
# More programs would say nothing more.
NAMED = 3
# Programs of a lab that are services of their machine, so that no run starts them.
_OF_LABS = ("labgrid", "ser2net")
# Variables in the environment of all that a run starts, and of all processes of a virtual or emulated lab.
RUN_VARIABLE = "PINET_RUN"
LAB_VARIABLE = "PINET_VLAB"
# Prints the uptime and the shell's PID, a line for each user process (PID, parent, ticks, ticks of its ended children,
# name), the marked processes, and the throttled time of each group of the shell that may have a quota (cgroup v2: us,
# v1: ns).
COMMAND = r"""read -r up x </proc/uptime; echo "$up $$"
cat /proc/[0-9]*/stat 2>/dev/null | awk '{ s = $0; sub(/^.*\) /, "", s); split(s, f, " ")
 if (int(f[7] / 2097152) % 2) next
 c = $0; sub(/^[0-9]+ \(/, "", c); c = substr(c, 1, length(c) - length(s) - 2)
 print $1, f[2], f[12] + f[13], f[14] + f[15], c }'
grep -l 'PINET_\(RUN\|VLAB\)=' /proc/[0-9]*/environ 2>/dev/null
while IFS=: read -r n c p; do
 case $n,$c, in 0,,) d=/sys/fs/cgroup ;; *,cpu,*) d=/sys/fs/cgroup/cpu ;; *) continue ;; esac
 while :; do
  grep throttled_ "$d${p%/}/cpu.stat" 2>/dev/null
  [ -n "${p%/}" ] || break
  p=${p%/*}
 done
done </proc/self/cgroup"""
_ENVIRON = re.compile(r"/proc/([0-9]{1,9})/environ")


@dataclass(frozen=True)
class ProcessUsage:
    """A user process: its parent, the seconds that it used, and the seconds of its children that ended."""

    parent: int
    used_s: float
    children_s: float
    name: str

    @property
    def all_s(self) -> float:
        """All seconds: a child that ends moves its seconds to its parent, so that a sum of these never falls."""
        return self.used_s + self.children_s


@dataclass(frozen=True)
class Snapshot:
    """All user processes at one moment; ``shell`` is the process that read them, ``marked`` are processes of ours."""

    uptime_s: float
    shell: int
    processes: dict[int, ProcessUsage]
    throttled_s: float | None
    marked: frozenset[int] = frozenset()

    def with_children(self, roots: Collection[int]) -> set[int]:
        """Return these processes and all below them."""
        found = {pid for pid in roots if pid in self.processes}
        below: dict[int, list[int]] = {}
        for pid, process in self.processes.items():
            below.setdefault(process.parent, []).append(pid)
        todo = list(found)
        while todo:
            more = [pid for pid in below.get(todo.pop(), ()) if pid not in found]
            found.update(more)
            todo += more
        return found

    @property
    def session(self) -> int:
        """The process at the head of our session: below the ssh server or the init process of this machine."""
        here = self.shell
        for above in self.waiting:
            if self.processes[above].parent <= 1:
                break
            here = above
        return here

    @property
    def waiting(self) -> Iterator[int]:
        """The processes above the shell, the nearest first, without PID 1."""
        here = self.processes.get(self.shell)
        while here is not None and here.parent > 1 and here.parent in self.processes:
            yield here.parent
            here = self.processes[here.parent]

    @property
    def of_labs(self) -> set[int]:
        """The marked processes, and the processes of programs that only labs run."""
        return {*self.marked, *(pid for pid, one in self.processes.items() if one.name.startswith(_OF_LABS))}


def parse(text: str) -> Snapshot | None:
    """Return what COMMAND printed; None if it is incomplete."""
    lines = text.splitlines()
    first = lines[0].split() if lines else []
    try:
        uptime_s, shell = float(first[0]), int(first[1])
    except (IndexError, ValueError):
        return None
    processes: dict[int, ProcessUsage] = {}
    throttled_s: float | None = None
    marked = set()
    for line in lines[1:]:
        words = line.split(maxsplit=4)
        if len(words) == 2 and is_count(words[1]):
            unit = 1e-9 if words[0] == "throttled_time" else 1e-6
            if words[0] in ("throttled_time", "throttled_usec"):
                throttled_s = (throttled_s or 0.0) + int(words[1]) * unit
        elif len(words) == 1 and (found := _ENVIRON.fullmatch(line)):
            marked.add(int(found[1]))
        elif len(words) == 5 and all(is_count(word) for word in words[:4]):
            pid, parent, used, children = map(int, words[:4])
            processes[pid] = ProcessUsage(parent, used / TICKS_PER_S, children / TICKS_PER_S, words[4])
    return Snapshot(uptime_s, shell, processes, throttled_s, frozenset(marked)) if processes else None


def used_between(
    before: Snapshot, after: Snapshot, own: Collection[int], waiting: Collection[int] = ()
) -> OtherWork | None:
    """Return what other processes used between two snapshots, as shares of one CPU.

    Ours are ``own`` with all processes below, and ``waiting`` without. A child that ended is counted at its parent,
    except at PID 1, which also takes our orphans.
    """
    window_s = after.uptime_s - before.uptime_s
    if window_s < LEAST_WINDOW_S:
        return None
    own = {*before.with_children(own), *after.with_children(own), *waiting}
    spent: dict[int, float] = {}
    for pid, process in after.processes.items():
        old = before.processes.get(pid)
        if pid == 1:
            spent[pid] = process.used_s - (0.0 if old is None else old.used_s)
        else:
            spent[pid] = process.all_s - (0.0 if old is None else old.all_s)
    for pid, process in before.processes.items():
        if pid not in after.processes and (heir := _heir(before, after, pid)) in spent and heir != 1:
            # What the child had used before is not of this window.
            spent[heir] -= process.all_s
    others = {pid: max(0.0, seconds) / window_s for pid, seconds in spent.items() if pid not in own}
    ranked = sorted(others.items(), key=lambda entry: -entry[1])[:NAMED]
    programs = tuple(Program(after.processes[pid].name, pid, share) for pid, share in ranked if share > 0)
    return OtherWork(sum(others.values()), programs)


def _heir(before: Snapshot, after: Snapshot, pid: int) -> int:
    """Return the nearest process above an ended one that still lives; 1 if there is none."""
    while pid not in after.processes:
        process = before.processes.get(pid)
        if process is None:
            return 1
        pid = process.parent
    return pid


def throttled_between(before: Snapshot, after: Snapshot) -> float | None:
    """Return how long a quota stopped our processes, as a share of one CPU; None if no group has a quota."""
    window_s = after.uptime_s - before.uptime_s
    if before.throttled_s is None or after.throttled_s is None or window_s < LEAST_WINDOW_S:
        return None
    return max(0.0, after.throttled_s - before.throttled_s) / window_s


class OtherPrograms(EvidenceSource):
    """The processes of an end that do not belong to our session there."""

    name = "processes"

    def command(self, device: str) -> str:
        return COMMAND

    def add(self, evidence: EndEvidence, texts: Texts) -> EndEvidence:
        before, after = parse(texts.before), parse(texts.after)
        if before is None or after is None:
            return evidence
        own = {before.session, after.session, *before.of_labs, *after.of_labs}
        return replace(evidence, others=used_between(before, after, own), throttled=throttled_between(before, after))


class ThisMachine:
    """The processes of the machine that runs the tests: namespaces of a virtual lab do not see them all."""

    def __init__(self) -> None:
        self._before: Snapshot | None = None

    def before(self) -> None:
        self._before = _read_here()

    def added(self, ends: Iterable[EndEvidence]) -> tuple[EndEvidence, ...]:
        """Read the processes right after the traffic, and add what others used to the ends on this machine.

        The next call counts from here if no ``before`` comes between.
        """
        found, machine, before = list(ends), _boot_id(), self._before
        here = [one for one in found if machine is not None and one.machine == machine]
        after = _read_here() if here and before is not None else None
        if before is None or after is None:
            return tuple(found)
        self._before = after
        own = {os.getpid(), *before.of_labs, *after.of_labs}
        others, throttled = used_between(before, after, own, {*after.waiting}), throttled_between(before, after)
        return tuple(
            replace(one, others=others, throttled=max(throttled or 0.0, one.throttled or 0.0)) if one in here else one
            for one in found
        )


def _read_here() -> Snapshot | None:
    try:
        done = subprocess.run(["sh", "-c", COMMAND], capture_output=True, text=True, errors="replace", timeout=5.0)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse(done.stdout)


def _boot_id() -> str | None:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return None
