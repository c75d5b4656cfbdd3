"""The symptoms of reported regressions, injected from outside: at the cable, the switch port and the power.

Each injection is a context manager over a running lab. It is written from the words of the report, and knows nothing of
the metric that must catch it. ``rx`` is what the board under test receives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from benchmarks.regressions.bench import Bench, batch, repeated
from benchmarks.regressions.delay import delayed

Injection = Callable[[Bench], AbstractContextManager[None]]
DUT = "dut"
ONBOARD = "onboard"
# Fewer packets a second than this are no traffic: LLDP, ARP and neighbour discovery.
_QUIET = 5
# More packets a second than this are traffic of a measurement.
_BUSY = 300
_LOOK_S = 0.5
_LAST_FRAMES = 1600
# In the kernel command line of the builds under test.
BUILD_B = "pinet.injected=1"


@contextmanager
def nothing() -> Iterator[None]:
    """The symptom comes with the build, and not from outside."""
    yield


@contextmanager
def rules(bench: Bench, rx: str = "", tx: str = "", interface: str = ONBOARD) -> Iterator[None]:
    """Apply rules of nftables at the board's switch port."""
    port = bench.port(DUT, interface)
    table = f"netdev injected-{port}"
    chains = "".join(
        f"chain {name} {{ type filter hook {hook} device {port} priority -10; {rule}\n}}\n"
        for name, hook, rule in (("rx", "egress", rx), ("tx", "ingress", tx))
        if rule
    )
    bench.switch.run("nft", "-f", "-", text=f"table {table} {{\n{chains}}}\n")
    try:
        yield
    finally:
        bench.switch.run("nft", "-f", "-", text=f"add table {table}\ndelete table {table}\n")


def _lost(share: float) -> str:
    return f"numgen random mod 1000 < {round(share * 1000)} drop"


def dead(bench: Bench) -> AbstractContextManager[None]:
    """The link is up, and nothing passes."""
    return rules(bench, rx="drop", tx="drop")


@contextmanager
def pulled(bench: Bench) -> Iterator[None]:
    """The board sees no carrier."""
    bench.degrade(f"{DUT}:{ONBOARD}", down=True)
    try:
        yield
    finally:
        bench.restore(f"{DUT}:{ONBOARD}")


def in_build_b(injection: Injection) -> Injection:
    """Inject only in boots whose kernel command line has the word of build B."""

    @contextmanager
    def injected(bench: Bench) -> Iterator[None]:
        boot = 0
        with ExitStack() as present:

            def step() -> None:
                nonlocal boot
                now = bench.boot_of(DUT)
                if now == boot:
                    return
                present.close()
                line = bench.command_line(DUT)
                if now and line is None:
                    return
                boot = now
                if now and BUILD_B in (line or "").split():
                    present.enter_context(injection(bench))

            with repeated(step, 0.05):
                yield

    return injected


def lost(share: float, interface: str = ONBOARD) -> Injection:
    """A share of the pings is lost: the share of the frames that the board receives."""
    return lambda bench: rules(bench, rx=_lost(share), interface=interface)


def lost_when_idle(share: float, per_second: int = 20) -> Injection:
    """A share of the frames is lost while the link is idle. Of a load, only ``per_second`` frames are in danger."""
    return lambda bench: rules(bench, rx=f"limit rate {per_second}/second burst {per_second} packets {_lost(share)}")


def slower(factor: float, direction: str | None = None, interface: str = ONBOARD) -> Injection:
    """The link carries a share of its rate."""

    @contextmanager
    def injected(bench: Bench) -> Iterator[None]:
        bench.degrade(f"{DUT}:{interface}", rate=factor, direction=direction)
        try:
            yield
        finally:
            bench.restore(f"{DUT}:{interface}")

    return injected


def flapping(period_s: float, down_s: float = 1.0) -> Injection:
    """The link goes down every ``period_s`` for ``down_s``: at the switch port, so that the board sees no carrier."""

    @contextmanager
    def injected(bench: Bench) -> Iterator[None]:
        port, since = bench.port(DUT), time.monotonic()

        def step() -> None:
            nonlocal since
            if time.monotonic() - since >= period_s:
                since = time.monotonic()
                bench.switch.run("ip", "link", "set", "dev", port, "down")
                time.sleep(down_s)
                bench.switch.run("ip", "link", "set", "dev", port, "up")

        with repeated(step, 0.1):
            yield

    return injected


class _Until:
    """A fault that lasts until the board's device is opened again or the board loses power."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._boot = bench.boot_of(DUT)
        self.present = False

    def reopened(self) -> bool:
        """Return whether a present fault ends now."""
        boot = self._bench.boot_of(DUT)
        link = self._bench.link(DUT)
        ends = boot != self._boot or link is None or not link.admin_up
        self._boot = boot
        return self.present and ends


def slow_after_idle(idle_s: float, rate_bps: float) -> Injection:
    """After ``idle_s`` without traffic the board receives at this rate, until its device is opened again or reset."""

    @contextmanager
    def injected(bench: Bench) -> Iterator[None]:
        target, port = f"{DUT}:{ONBOARD}", bench.port(DUT)
        fault = _Until(bench)
        last, busy = (sum(bench.switch.packets(port)), time.monotonic()), time.monotonic()

        def step() -> None:
            nonlocal last, busy
            now, seen = time.monotonic(), sum(bench.switch.packets(port))
            rate, last = (seen - last[0]) / (now - last[1]), (seen, now)
            if fault.reopened():
                fault.present = False
                busy = now
                bench.restore(target)
            elif rate > _QUIET:
                busy = now
            elif not fault.present and now - busy >= idle_s and bench.boot_of(DUT):
                fault.present = True
                bench.degrade(target, rate=rate_bps / bench.gigabit, direction="rx")

        with repeated(step, _LOOK_S):
            try:
                yield
            finally:
                bench.restore(target)

    return injected


@contextmanager
def dead_after_replug(bench: Bench) -> Iterator[None]:
    """After each loss of the carrier the link comes up, and nothing passes until the board's device is opened again."""
    with ExitStack() as broken:
        fault = _Until(bench)

        def step() -> None:
            link = bench.link(DUT)
            if fault.reopened():
                fault.present = False
                broken.close()
            elif not fault.present and link is not None and link.admin_up and not link.carrier:
                fault.present = True
                broken.enter_context(rules(bench, rx="drop", tx="drop"))

        with repeated(step, 0.05):
            yield


def late(seconds: float) -> Injection:
    """Each round trip takes longer; nothing is lost."""
    return lambda bench: delayed(bench, DUT, lambda: seconds)


@contextmanager
def frozen_tx(bench: Bench) -> Iterator[None]:
    """The board's frames wait in its queue, and it receives."""
    namespace, device = bench.namespace(DUT), bench.device(DUT)
    if namespace is not None:
        # Two frames pass before. `pinet lab degrade` lets 10 kB pass.
        bucket = f"tbf rate 8bit burst {_LAST_FRAMES} limit 200000"
        namespace.run("tc", "qdisc", "replace", "dev", device, "root", "handle", "1:", *bucket.split())
    try:
        yield
    finally:
        # The lab then sets its own rate again.
        bench.degrade(f"{DUT}:{ONBOARD}", rate=0.999, direction="tx")
        bench.restore(f"{DUT}:{ONBOARD}")


def stalls(every_s: float, stall_s: float) -> Injection:
    """From time to time the board sends nothing for ``stall_s``."""

    @contextmanager
    def injected(bench: Bench) -> Iterator[None]:
        with ExitStack() as stall:
            since = time.monotonic()
            stalled = False

            def step() -> None:
                nonlocal since, stalled
                if time.monotonic() - since < (stall_s if stalled else every_s):
                    return
                since = time.monotonic()
                if stalled:
                    stall.close()
                elif bench.boot_of(DUT):
                    stall.enter_context(frozen_tx(bench))
                stalled = not stalled

            with repeated(step, _LOOK_S):
                yield

    return injected


def stalls_under_pings(every_s: float, stall_s: float) -> Injection:
    """The same, while the peer sends pings, as a board that works has traffic."""

    @contextmanager
    def injected(bench: Bench) -> Iterator[None]:
        with pings(bench), stalls(every_s, stall_s)(bench):
            yield

    return injected


@contextmanager
def pings(bench: Bench) -> Iterator[None]:
    """The peer pings the board."""
    bench.address()
    with bench.pinging():
        yield


def reset_under_both_ways(load_s: float, gone_s: float) -> Injection:
    """After ``load_s`` of load in both directions at once the NIC resets: the link is gone for ``gone_s``."""

    @contextmanager
    def injected(bench: Bench) -> Iterator[None]:
        port = bench.port(DUT)
        last, at, loaded = bench.switch.packets(port), time.monotonic(), 0.0

        def step() -> None:
            nonlocal last, at, loaded
            now, seen = time.monotonic(), bench.switch.packets(port)
            passed = now - at
            # Acknowledgements are up to half of the frames of the other direction.
            both = 1.5 * min(b - a for a, b in zip(last, seen, strict=True)) > max(
                b - a for a, b in zip(last, seen, strict=True)
            )
            busy = sum(seen) - sum(last) > _BUSY * passed
            last, at = seen, now
            loaded = loaded + passed if both and busy else 0.0
            if loaded >= load_s:
                loaded = 0.0
                bench.switch.run("ip", "link", "set", "dev", port, "down")
                time.sleep(gone_s)
                bench.switch.run("ip", "link", "set", "dev", port, "up")

        with repeated(step, _LOOK_S):
            yield

    return injected


def decay(end: float, over_s: float) -> Injection:
    """The rate falls to this share, evenly by factors. It begins with the first traffic, and does not recover."""

    @contextmanager
    def injected(bench: Bench) -> Iterator[None]:
        port, began = bench.port(DUT), 0.0
        last, at = sum(bench.switch.packets(port)), time.monotonic()

        def step() -> None:
            nonlocal began, last, at
            now, seen = time.monotonic(), sum(bench.switch.packets(port))
            if not began and seen - last > _BUSY * (now - at):
                began = now
            last, at = seen, now
            if began:
                bench.degrade(f"{DUT}:{ONBOARD}", rate=end ** min(1.0, (now - began) / over_s))

        with repeated(step, 1.0):
            try:
                yield
            finally:
                bench.restore(f"{DUT}:{ONBOARD}")

    return injected


@contextmanager
def each_boot(bench: Bench, prepare: Callable[[int], None], powered: Callable[[float], None]) -> Iterator[None]:
    """Call ``prepare`` with the number of the next boot while the board is off, and ``powered`` with its time on."""
    number, boot, on_since = 1, bench.boot_of(DUT), time.monotonic()
    if not boot:
        prepare(number)

    def step() -> None:
        nonlocal number, boot, on_since
        now = bench.boot_of(DUT)
        if now != boot:
            if boot:
                number += 1
                prepare(number)
            boot, on_since = now, time.monotonic()
        if boot:
            powered(time.monotonic() - on_since)

    with repeated(step, 0.05):
        yield


def no_link_in_a_boot(of: int) -> Injection:
    """One boot of so many has no link: the cable carries nothing and the board sees no carrier."""

    @contextmanager
    def injected(bench: Bench) -> Iterator[None]:
        target = f"{DUT}:{ONBOARD}"

        def prepare(number: int) -> None:
            if number % of == 0:
                bench.degrade(target, down=True)
            else:
                bench.restore(target)

        with each_boot(bench, prepare, lambda _: None):
            yield

    return injected


def late_in_some_boots(of: int, bad: tuple[int, ...], seconds: tuple[float, ...]) -> Injection:
    """In some boots of so many each ping takes long. ``seconds`` are the delays of frames, in turn."""

    @contextmanager
    def injected(bench: Bench) -> Iterator[None]:
        is_bad, count = False, 0

        def prepare(number: int) -> None:
            nonlocal is_bad
            is_bad = number % of in bad

        def seconds_now() -> float:
            nonlocal count
            count += 1
            return seconds[count % len(seconds)] if is_bad else 0.0

        with delayed(bench, DUT, seconds_now), each_boot(bench, prepare, lambda _: None):
            yield

    return injected


def late_carrier(seconds: float) -> Injection:
    """The link comes up ``seconds`` after the power."""

    @contextmanager
    def injected(bench: Bench) -> Iterator[None]:
        target, is_down = f"{DUT}:{ONBOARD}", False

        def prepare(_number: int) -> None:
            nonlocal is_down
            bench.degrade(target, down=True)
            is_down = True

        def powered(on_s: float) -> None:
            nonlocal is_down
            if is_down and on_s >= seconds:
                bench.restore(target)
                is_down = False

        with each_boot(bench, prepare, powered):
            try:
                yield
            finally:
                bench.restore(target)

    return injected


@contextmanager
def frozen_tx_by_forwarding_and_local(bench: Bench) -> Iterator[None]:
    """The board stops sending while it forwards and has traffic of its own at the same time."""
    table = "inet injected"
    text = (
        f"table {table} {{ counter forwarded {{ }}\ncounter own {{ }}\n"
        "chain f { type filter hook forward priority 0; counter name forwarded\n}\n"
        "chain o { type filter hook output priority 0; counter name own\n}\n}\n"
    )
    boot, last, at, both_s, frozen_at = 0, (0, 0), time.monotonic(), 0.0, 0.0
    with ExitStack() as frozen:

        def counts() -> tuple[int, int]:
            namespace = bench.namespace(DUT)
            assert namespace is not None
            words = [line.split() for line in namespace.run("nft", "list", "counters", "inet").splitlines()]
            found = [int(w[1]) for w in words if w[:1] == ["packets"]]
            return found[0], found[1]

        def step() -> None:
            nonlocal boot, last, at, both_s, frozen_at
            if not bench.boot_of(DUT):
                return
            now = time.monotonic()
            if bench.boot_of(DUT) != boot:
                namespace = bench.namespace(DUT)
                assert namespace is not None
                namespace.run("nft", "-f", "-", text=f"add table {table}\ndelete table {table}\n{text}")
                boot, last, at = bench.boot_of(DUT), (0, 0), now
                return
            seen = counts()
            rates = [(b - a) / (now - at) for a, b in zip(last, seen, strict=True)]
            both_s = both_s + now - at if min(rates) > _BUSY else 0.0
            last, at = seen, now
            if frozen_at and now - frozen_at > 10:
                frozen.close()
                frozen_at = 0.0
            elif not frozen_at and both_s >= 1:
                frozen.enter_context(frozen_tx(bench))
                frozen_at = now

        try:
            with repeated(step, _LOOK_S):
                yield
        finally:
            namespace = bench.namespace(DUT)
            if namespace is not None:
                namespace.run("nft", "-f", "-", text=f"add table {table}\ndelete table {table}\n")


def slower_forwarding(factor: float) -> Injection:
    """Frames that the board forwards leave it at a share of the link's rate; its own frames do not."""

    @contextmanager
    def injected(bench: Bench) -> Iterator[None]:
        boot = 0

        def step() -> None:
            nonlocal boot
            namespace = bench.namespace(DUT)
            if namespace is None or bench.boot_of(DUT) == boot:
                return
            boot = bench.boot_of(DUT)
            lines, marks = [], []
            for interface in (ONBOARD, "pcie"):
                device = bench.device(DUT, interface)
                # The arbiter's classes are 2:1 and so on. A frame with the priority 2:f0 goes to this class.
                rate = round(factor * bench.gigabit)
                lines += [f"class replace dev {device} parent 2: classid 2:f0 htb rate {rate}bit ceil {rate}bit"]
                lines += [f"qdisc replace dev {device} parent 2:f0 bfifo limit 128000"]
                marks += [f'oifname "{device}" meta priority set 2:f0']
            namespace.run("tc", "-batch", "-", text=batch(lines))
            chain = "\n".join(marks)
            text = f"table inet injected {{ chain f {{ type filter hook forward priority 0;\n{chain}\n}}\n}}\n"
            namespace.run("nft", "-f", "-", text=f"add table inet injected\ndelete table inet injected\n{text}")

        with repeated(step, _LOOK_S):
            try:
                yield
            finally:
                namespace = bench.namespace(DUT)
                if namespace is not None:
                    namespace.run("nft", "-f", "-", text="add table inet injected\ndelete table inet injected\n")

    return injected
