"""When a boot is over: programs that hang, in QEMU's place, are ended by the processor time that they use."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from pytest_pinet.errors import BuildError, LabError
from pytest_pinet.exact import boot, qemu
from pytest_pinet.exact.measure import exact_boards
from pytest_pinet.exact.payload import KernelImage, Payload
from pytest_pinet.exact.qemu import Plugin, Qemu
from pytest_pinet.exact.traffic import Events

BUSY = "echo begun; while :; do :; done"
HALTED = "echo begun; exec sleep 60"
NOTHING = Payload(
    board=exact_boards()["macb"], build="", release="6.12.25", image=KernelImage(b""), pages_kib=4, words="", files={},
    options={}, is_signed=False, script=(), sender="pktgen", events=(),
)  # fmt: skip


def run(script: str, cpu_s: float) -> tuple[str, int | str]:
    with closing(Events(exact_boards()["e1000e"], ())) as events:
        return boot.run_until_end(["sh", "-c", script], {}, (), cpu_s, (), events)


def test_a_program_that_computes_forever_ends_at_its_processor_time() -> None:
    assert run(BUSY, cpu_s=0.3) == ("begun\n", "QEMU used 0.3 s of processor time")


def test_a_program_that_halts_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "HALTED_S", 0.5)
    text, end = run(HALTED, cpu_s=600.0)
    assert (text, end) == ("begun\n", "QEMU used less than 1 s of processor time in 0.5 s, so the guest has halted")


def test_a_machine_that_gives_no_processor_time_is_an_error_of_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "_WALL_S", 0.5)
    with pytest.raises(LabError, match=r"^QEMU got only 0 s of processor time in "):
        run(HALTED, cpu_s=600.0)


def test_no_more_machines_run_than_processors_and_a_stopped_run_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most = 0, 0
    first = threading.Event()

    def run(*_: object) -> boot._Ran:
        nonlocal running, most
        running += 1
        most = max(most, running)
        first.wait(0.2)
        running -= 1
        return boot._Ran("", "", b"", "no end")

    monkeypatch.setattr(boot, "_run", run)
    monkeypatch.setattr(qemu, "usable_processors", lambda: 1)
    monkeypatch.setattr(boot, "_ROOM", qemu.Room())
    words = NOTHING, Qemu(("qemu",), (10, 0, 2), ""), Plugin(None, None)
    with pytest.raises(BuildError, match=r" did not end: no end$"):
        boot.boot_twice(*words)
    assert most == 1
    stop = threading.Event()
    stop.set()
    stopped = pytest.raises(LabError, match=r"^the boot was stopped, because another boot failed or ")
    with boot._ROOM.guest(1, lambda: None), stopped:
        boot.boot(*words, stops=(stop,))


def test_a_program_that_ends_leaves_its_exit_code() -> None:
    assert run("echo done; exit 3", cpu_s=600.0) == ("done\n", 3)


def test_the_line_of_a_failure_is_read_whole_though_it_comes_in_parts() -> None:
    line = "exact-failed: write /proc/sys/a 1: no such parameter (errno 2)\n"
    text, end = run(f"echo; printf '{line[:30]}'; sleep 0.3; printf '{line[30:-1]}\\n'; exec sleep 60", cpu_s=600.0)
    assert (text, end) == (f"\n{line}", 0)


def test_of_a_guest_that_prints_without_end_the_last_lines_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "KEPT", 100_000)
    text, end = run("yes 'the same message again' | head -c 2000000; echo; echo the last line", cpu_s=600.0)
    assert end == 0
    assert 100_000 <= len(text) <= 200_000 + 65536
    assert text.endswith("\nthe last line\n")


def test_the_first_panic_is_kept_though_the_guest_prints_on_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "KEPT", 100_000)
    panic = "Kernel panic - not syncing: Fatal exception"
    begin = f"printf '[    0.5] {panic[:9]}'; sleep 0.1; printf '{panic[9:]}\\n[    0.6] {panic} in interrupt\\n'"
    text, end = run(f"{begin}; yes 'the same message again' | head -c 2000000", cpu_s=600.0)
    assert end == 0
    assert text.startswith(f"{panic}\n")
    assert text.count(panic) == 1
    assert len(text) <= 200_000 + 65536 + len(panic)


def test_a_panic_that_is_still_in_the_console_is_there_once() -> None:
    text, _ = run("printf 'Kernel panic - not syncing: no init\\nReboot\\n'", cpu_s=600.0)
    assert text == "Kernel panic - not syncing: no init\nReboot\n"


def test_a_guest_that_repeats_the_same_code_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin ends QEMU with this line."""
    console = "[    0.5] e1000e: probing\n[    0.6]\nexact-failed: hang: no new code\n"
    monkeypatch.setattr(boot, "_run", lambda *_: boot._Ran(console, "", b"", 1))
    message = "^kernel 6.12.25 on the exact board macb hangs: for 60 virtual seconds it repeated the same code$"
    with pytest.raises(BuildError, match=message) as raised:
        boot.boot(NOTHING, Qemu(("qemu",), (10, 0, 2), ""), Plugin(None, None))
    assert (raised.value.kind, raised.value.excerpt) == ("hang", console.removesuffix("\n"))


def test_a_window_without_packets_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    results = "banner Linux\ndriver macb\nwindow pktgen rx 60 0 130225000 50\nsymbols\nffff800008000000 _text\nend\n"
    monkeypatch.setattr(boot, "_run", lambda *_: boot._Ran("\nexact-end\n", results, b"", 0))
    qemu, plugin = Qemu(("qemu",), (10, 0, 2), ""), Plugin(None, None)
    with pytest.raises(BuildError, match=r"^kernel 6.12.25 on the exact board macb moved no packet in pktgen-60-rx$"):
        boot.boot(NOTHING, qemu, plugin)
