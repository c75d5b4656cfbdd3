"""Exact boards in QEMU on this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence

from pytest_pinet.errors import ConfigError
from pytest_pinet.exact.board import ExactBoard
from pytest_pinet.exact.measure import ExactBench, stock_build, stock_release
from pytest_pinet.exact.payload import OPTIONAL, VLAN_MODULE, Payload, module_names
from pytest_pinet.model.build import Build
from pytest_pinet.model.exact import VLAN, MadeExactBoot
from pytest_pinet.session.exact_machines import PlannedExactBoot

Say = Callable[[str], None]
# The first boots of a known-good build prove that the board is exact.
_PROOF = 2


class QemuMachines:
    """Implements ``ExactMachines``.

    A known-good build that consists of modules replaces modules of the stock kernel, as the build under test does. The
    build under test replaces modules of the known-good kernel.
    """

    def __init__(self, boards: Mapping[str, ExactBoard]) -> None:
        self._boards = boards
        self._stock: Build | None = None
        self._benches: dict[str, ExactBench] = {}
        self._kernels: dict[str, Build] = {}
        self._pages_kib: dict[str, int] = {}
        # The optional modules that both builds have, by NIC: equal traffic is compared.
        self._optional: dict[str, Collection[str]] = {}
        self._stop = threading.Event()

    @property
    def nics(self) -> Sequence[str]:
        return tuple(self._boards)

    def stock_release(self, say: Say) -> str:
        return stock_release(say)

    def known_good(self, nic: str, build: Build | None, new: Build, say: Say) -> PlannedExactBoot:
        bench = self._bench(nic)
        kernel = build if build is not None and build.kernel is not None else self._stock_kernel(say)
        self._kernels[nic] = kernel
        self._optional[nic] = module_names(kernel, build).intersection(module_names(kernel, new), OPTIONAL)
        if VLAN in bench.board.nic.windows and VLAN_MODULE not in self._optional[nic]:
            say(f"{nic}: no traffic in a VLAN, because not both builds have the module {VLAN_MODULE}")
        payload = bench.payload(kernel, build, self._optional[nic])
        self._pages_kib[nic] = payload.pages_kib
        return self._planned(bench, payload, say, proves=True)

    def boot(self, nic: str, build: Build, say: Say) -> PlannedExactBoot:
        bench = self._bench(nic)
        payload = bench.payload(self._kernels[nic], build, self._optional[nic])
        if (known := self._pages_kib[nic]) != payload.pages_kib:
            raise ConfigError(
                f"{build} has pages of {payload.pages_kib} KiB, but {self._kernels[nic]}, with which it is compared, "
                f"has pages of {known} KiB: they run on different processors, whose counts differ; name a known-good "
                f"kernel with pages of {payload.pages_kib} KiB (--against)"
            )
        return self._planned(bench, payload, say)

    def _planned(self, bench: ExactBench, payload: Payload, say: Say, proves: bool = False) -> PlannedExactBoot:
        def boots(number: int) -> int:
            if proves and not number:
                return 0 if bench.is_proved(payload) else _PROOF
            return int(not bench.is_measured(payload.vary(number)))

        def make(number: int) -> MadeExactBoot:
            booted = bench.known_good if proves and not number else bench.measured
            # The reason for more boots stays on the line of progress.
            return booted(payload.vary(number), say if number == 0 else lambda _: None, [self._stop])

        return PlannedExactBoot(boots, make)

    def stop(self) -> None:
        self._stop.set()

    def _bench(self, nic: str) -> ExactBench:
        if nic not in self._benches:
            self._benches[nic] = ExactBench(self._boards[nic])
        return self._benches[nic]

    def _stock_kernel(self, say: Say) -> Build:
        if self._stock is None:
            self._stock = stock_build(say)
        return self._stock
