"""The cache of exact boots: used by several gates at once, on a full disk, with damaged entries."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_pinet.errors import LabError
from pytest_pinet.exact.store import boot_once, exact_cache, key_of, known_boot
from pytest_pinet.model.exact import ExactBoot, MadeExactBoot
from tests.support.exact_boots import KNOWN_GOOD as BOOT


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def never() -> ExactBoot:
    pytest.fail("the cache has this boot")


def test_a_boot_is_made_once() -> None:
    key = key_of("e1000e", "kernel")
    assert known_boot(key) is None
    assert boot_once(key, lambda: BOOT).boot == BOOT
    assert boot_once(key, never) == MadeExactBoot(BOOT, 0.0, cached=True)
    assert key != key_of("e1000e", "another kernel")


def test_a_damaged_entry_is_made_again() -> None:
    key = key_of("a")
    boot_once(key, lambda: BOOT)
    (file,) = exact_cache().glob("boots/*/boot.json.gz")
    file.write_bytes(file.read_bytes()[:40])
    assert known_boot(key) is None
    assert boot_once(key, lambda: BOOT).boot == BOOT
    assert boot_once(key, never) == MadeExactBoot(BOOT, 0.0, cached=True)


def test_two_gates_at_once_boot_once() -> None:
    program = """
import time
from pytest_pinet.exact.store import boot_once
from tests.support.exact_boots import KNOWN_GOOD as BOOT
def run():
    print("booted", flush=True)
    time.sleep(0.3)
    return BOOT
assert boot_once("0" * 32, run).boot == BOOT
"""
    gates = [
        subprocess.Popen([sys.executable, "-X", "pinet", "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    output = [gate.communicate(timeout=60)[0] for gate in gates]
    assert [gate.returncode for gate in gates] == [0, 0]
    assert sorted(output) == ["", "booted\n"]


def test_a_full_disk_is_one_sentence() -> None:
    def run() -> ExactBoot:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "boot.json.gz")

    with pytest.raises(LabError, match=r"cannot be written: No space left on device \(boot.json.gz\)\n"):
        boot_once("f", run)


def test_old_boots_leave_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_pinet.exact.store.KEPT", 2)
    for name in "abc":
        boot_once(name, lambda: BOOT)
        long_ago = time.time() - 100 * 86_400
        os.utime(exact_cache() / "boots" / name, (long_ago, long_ago))
    boot_once("d", lambda: BOOT)
    assert sorted(path.name for path in (exact_cache() / "boots").iterdir()) == ["c", "d"]
