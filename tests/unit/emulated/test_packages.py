"""Packages of emulated boards come from this machine's Debian sources, through a separate apt."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_pinet.emulated import packages
from pytest_pinet.emulated.image import (
    FORGOTTEN_AFTER_S,
    LARGEST_META,
    cache,
    card_image,
    forget_old,
    kernel_package,
    kernels,
    locked,
)
from pytest_pinet.emulated.packages import Apt, PackageSource, machine_sources
from pytest_pinet.errors import LabError
from tests.support.apt_programs import LISTS, tool


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder, first on PATH, for stand-ins of apt's commands."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_each_source_of_debian_main_is_returned_once(apt: Path) -> None:
    tool(apt, "apt-get", f"cat <<'END'\n{LISTS}END")
    assert machine_sources() == [
        PackageSource("http://mirror/debian/", "bookworm", "main"),
        PackageSource("http://mirror/security/", "bookworm-security", "main"),
    ]


def test_a_machine_without_debian_sources_is_refused(apt: Path) -> None:
    tool(apt, "apt-get", "echo 'Ubuntu|http://mirror/ubuntu/|noble|main'")
    with pytest.raises(LabError, match="apt of this machine has no lists of Debian packages"):
        machine_sources()


def test_apt_that_does_not_answer_is_one_sentence(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "LISTS_TIMEOUT_S", 0.1)
    tool(apt, "apt-get", "exec sleep 5")
    with pytest.raises(LabError, match=r"^`apt-get indextargets .*` did not end within 0.1 s"):
        machine_sources()


def test_a_missing_card_image_names_the_command_that_makes_it(
    apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tool(apt, "apt-get", "echo 'Ubuntu|http://mirror/ubuntu/|noble|main'")
    with pytest.raises(LabError) as caught:
        card_image(lambda _: None)
    assert caught.value.message.startswith(
        "emulated boards need a card image, and `pinet emulated card` cannot make it here: emulated boards are made "
        "from Debian packages, but apt of this machine has no lists"
    )
    assert caught.value.act.startswith("run `sudo apt-get update` on a Debian machine")


def test_backports_are_used_if_the_mirror_has_them(apt: Path, tmp_path: Path) -> None:
    tool(
        apt,
        "apt-get",
        f"case \"$*\" in *indextargets*) cat <<'END'\n{LISTS}END\n;; "
        "*Error-Mode*) echo 'E: no such release' >&2; exit 100 ;; esac",
    )
    reported: list[str] = []
    Apt(tmp_path / "home", reported.append).update()
    assert "backports" not in (tmp_path / "home" / "sources.list").read_text()
    assert reported == ["reading the lists of arm64 packages"]
    tool(apt, "apt-get", f"case \"$*\" in *indextargets*) cat <<'END'\n{LISTS}END\n;; esac")
    age(tmp_path / "home")
    Apt(tmp_path / "home", reported.append).update()
    assert (
        "deb [arch=arm64] http://mirror/debian/ bookworm-backports main\n"
        in (tmp_path / "home" / "sources.list").read_text()
    )


def age(home: Path) -> None:
    """Make the lists older than a day."""
    then = time.time() - packages.FRESH_S - 1
    os.utime(home / "lists-were-read", (then, then))


def test_lists_are_read_once_a_day_and_old_ones_serve_without_a_network(apt: Path, tmp_path: Path) -> None:
    home, calls = tmp_path / "home", tmp_path / "calls"
    lists = f'echo "$*" >> {calls}\ncase "$*" in *indextargets*) cat <<\'END\'\n{LISTS}END\n;;'
    tool(apt, "apt-get", f"{lists} esac")
    reported: list[str] = []
    for _ in range(2):
        Apt(home, reported.append).update()
    assert calls.read_text().count("update") == 2, "the lists and their backports, once"
    with_backports = (home / "sources.list").read_text()
    age(home)
    tool(apt, "apt-get", f"{lists} *update*) echo 'E: no network' >&2; exit 100 ;; esac")
    Apt(home, reported.append).update()
    assert (home / "sources.list").read_text() == with_backports
    assert re.fullmatch(r"using the package lists of \d{4}-\d\d-\d\d: .*E: no network.*", reported[-1])
    # Lists of other sources do not serve.
    tool(apt, "apt-get", f"{lists} *update*) echo 'E: no network' >&2; exit 100 ;; esac".replace("mirror", "other"))
    with pytest.raises(LabError, match="no network"):
        Apt(home, reported.append).update()


def test_apt_is_asked_for_a_kernel_once_for_each_state_of_its_lists(
    apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = tmp_path / "calls"

    def newest(name: str) -> None:
        answers = [
            f"*indextargets*) cat <<'END'\n{LISTS}END\n;;",
            f'*print-uris*) echo "x {name}.deb 9 SHA256:0" ;;',
            f"*download*) truncate -s {LARGEST_META + 1} {name}.deb ;;",
        ]
        tool(apt, "apt-get", f'echo "$*" >> {calls}\ncase "$*" in {" ".join(answers)} esac')

    def asked() -> int:
        return calls.read_text().count("print-uris")

    newest("linux-image-6.1_1")
    found = kernel_package("linux-image", print)
    newest("linux-image-6.1_2")
    assert (kernel_package("linux-image", print), asked()) == (found, 1)
    # The answer on another name is its own.
    assert kernel_package("linux-image-rt", print).name == "linux-image-6.1_2.deb"
    # Newer lists may have a newer kernel.
    age(cache() / "apt")
    assert kernel_package("linux-image", print).name == "linux-image-6.1_2.deb"
    # A package that was removed is fetched again.
    kernel_package("linux-image", print).unlink()
    assert kernel_package("linux-image", print).exists()
    asked_before = asked()
    (cache() / "apt/answers.json").write_text("{")
    kernel_package("linux-image", print)
    assert asked() == asked_before + 1


def test_the_error_quotes_apt(apt: Path, tmp_path: Path) -> None:
    tool(apt, "apt-get", "echo 'E: Unable to locate package nonsense' >&2; exit 100")
    with pytest.raises(
        LabError, match=r"`apt-get download .* failed with exit code 100: E: Unable to locate package nonsense"
    ):
        Apt(tmp_path, lambda _: None).fetch("nonsense")


def test_a_truncated_package_is_fetched_again(apt: Path, tmp_path: Path) -> None:
    plan = 'case "$*" in *--print-uris*) echo "x linux_6.deb 9 SHA256:0";; '
    tool(apt, "apt-get", f"{plan}*) echo a part > linux_6.deb; exit 100;; esac")
    with pytest.raises(LabError, match="failed"):
        Apt(tmp_path, lambda _: None).fetch("linux")
    tool(apt, "apt-get", f"{plan}*) echo whole > linux_6.deb;; esac")
    assert Apt(tmp_path, lambda _: None).fetch("linux").read_text() == "whole\n"
    assert [path.name for path in (tmp_path / "single").iterdir()] == ["linux_6.deb"]


def test_apt_has_a_time_limit(apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "FETCH_TIMEOUT_S", 0.2)
    tool(apt, "apt-get", "exec sleep 5")
    with pytest.raises(LabError, match=r"did not end within 0\.2 s"):
        Apt(tmp_path, lambda _: None).fetch("anything")


def test_the_newest_kernel_of_each_series_and_flavour_is_listed(
    apt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tool(apt, "apt-get", f"case \"$*\" in *indextargets*) cat <<'END'\n{LISTS}END\n;; esac")
    names = ["6.1.0-9-arm64", "6.1.0-50-arm64", "6.1.0-50-rt-arm64", "6.12.9+deb12-arm64", "6.12.73+deb12-arm64"]
    names += ["6.12.9+deb12-arm64-16k", "6.12.73+deb12-arm64-16k"]
    tool(apt, "apt-cache", "".join(f"echo 'linux-image-{name} - Linux';" for name in names))
    assert kernels(lambda _: None) == [
        "linux-image-6.1.0-50-arm64",
        "linux-image-6.1.0-50-rt-arm64",
        "linux-image-6.12.73+deb12-arm64",
        "linux-image-6.12.73+deb12-arm64-16k",
    ]


def card(folder: Path, age_s: float) -> Path:
    folder.mkdir(parents=True)
    (folder / "card.img").touch()
    last = time.time() - age_s
    for path in (folder / "card.img", folder):
        os.utime(path, (last, last))
    return folder / "card.img"


def test_the_last_used_cards_are_kept(tmp_path: Path) -> None:
    cards = [card(tmp_path / f"recipe{age}", 1000 + age) for age in range(6)]
    os.utime(cards[5])
    (tmp_path / "apt").mkdir()
    (tmp_path / "recipe9.draft").mkdir()
    forget_old(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["apt", "recipe0", "recipe1", "recipe2", "recipe5"]


def test_old_cards_of_a_lab_that_was_never_stopped_are_removed(tmp_path: Path) -> None:
    for lab, age_s in (("running", 10.0), ("abandoned", FORGOTTEN_AFTER_S + 10)):
        card(tmp_path / "cards" / lab / "virt-1", age_s)
        os.utime(tmp_path / "cards" / lab, (time.time() - age_s,) * 2)
    forget_old(tmp_path)
    assert [path.name for path in (tmp_path / "cards").iterdir()] == ["running"]


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    message = r"/file/pinet/emulated, a cache of pinet, cannot be written: Not a directory"
    with pytest.raises(LabError, match=message) as caught, locked(cache()):
        pass
    assert "XDG_CACHE_HOME" in str(caught.value)


def test_a_full_disk_is_a_lab_error_and_other_errors_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(LabError, match=r"cannot be written: No space left on device"), locked(cache()):
        Path("/dev/full").write_text("x")
    with pytest.raises(FileNotFoundError), locked(cache()):
        Path("/nowhere").read_text()


HOLDER = """
import sys, time
from pathlib import Path
from pytest_pinet.emulated.image import locked

with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_wait_names_the_process_and_ends(tmp_path: Path, holder: subprocess.Popen[bytes]) -> None:
    said: list[str] = []
    with (
        pytest.raises(
            LabError, match=rf"^waited 0 s for {tmp_path}, which process {holder.pid} fills\n  -> wait until"
        ),
        locked(tmp_path, said.append, timeout_s=0.3),
    ):
        pass
    assert said == [f"waiting for process {holder.pid}, which fills {tmp_path}"]


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path, holder: subprocess.Popen[bytes]) -> None:
    holder.kill()
    holder.wait(10)
    with locked(tmp_path, pytest.fail, timeout_s=10):
        pass
