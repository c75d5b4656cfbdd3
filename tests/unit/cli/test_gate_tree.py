"""``pinet gate --tree``: builds two commits of a tiny kernel, and gates one against the other by recorded boots."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_pinet.cli import run
from pytest_pinet.tree.sources import Tree
from tests.support import recorded_exact
from tests.support.kernel_repository import KernelRepository, stand_in_tools

QUIET = ("-p", "no:cacheprovider", "-p", "tests.support.recorded_exact")
Gate = Callable[..., tuple[int, str]]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelRepository:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    stand_in_tools(tmp_path / "bin", monkeypatch)
    return KernelRepository(tmp_path / "linux")


@pytest.fixture
def gate(repository: KernelRepository, capfd: pytest.CaptureFixture[str]) -> Gate:
    """Return ``pinet gate --tree``, which gives exit code and output."""

    def call(*words: str) -> tuple[int, str]:
        capfd.readouterr()
        try:
            code: object = run(["gate", "--tree", str(repository.folder), *words])
        except SystemExit as ended:
            code = ended.code
        assert isinstance(code, int)
        return code, "".join(capfd.readouterr())

    return call


def test_a_slower_commit_is_built_gated_and_named(
    repository: KernelRepository, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = repository.git("rev-parse", "v1")
    slow = repository.commit("v2", {"drivers/a.c": "slow\n"})
    monkeypatch.setattr(recorded_exact, "BOOTS", {**recorded_exact.BOOTS, slow[:12]: recorded_exact.BOOTS["slow"]})
    before = repository.state()
    code, out = gate("--good=v1", "--exact", *QUIET)
    assert code == 1, out
    assert f'good: {good[:12]} ("v1: a change"), to build\nbad: {slow[:12]} ("v2: a change"), to build\n' in out
    assert f"{slow[:12]} must not be merged" in out
    # The report names lines of the bad commit.
    assert (Tree(repository.folder).folder / "source/drivers/a.c").read_text() == "slow\n"
    assert repository.state() == before
    change = json.loads(Path(".pinet/latest/results.json").read_text())["change"]
    assert [change[side]["source"]["commit"] for side in "ab"] == [good, slow]
    # The other way round, both are there.
    code, out = gate("--good=v2", "--bad=v1", "--exact", *QUIET)
    assert "to build" not in out
    assert "compiling" not in out
    assert (Tree(repository.folder).folder / "source/drivers/a.c").read_text() == "a\n"


def test_a_plan_compiles_nothing(repository: KernelRepository, gate: Gate) -> None:
    repository.commit("v2", {"drivers/a.c": "changed\n"})
    code, out = gate("--good=v1", "--exact", "--dry-run", *QUIET)
    assert code == 0, out
    assert "compiling" not in out
    assert not (Tree(repository.folder).folder / "source").exists()
    gate("--good=v1", "--exact", *QUIET)
    code, out = gate("--good=v1", "--exact", "--dry-run", *QUIET)
    assert (code, "boots of exact boards" in out) == (0, True), out


def test_a_bad_commit_that_does_not_compile_is_broken_and_a_good_one_is_a_mistake(
    repository: KernelRepository, gate: Gate
) -> None:
    broken = repository.commit("v2", {"drivers/a.c": "error: expected ';'\n"})
    message = f"{broken[:12]} (\"v2: a change\") does not compile: drivers/a.c:1:error: expected ';'"
    code, out = gate("--good=v1", "--exact", *QUIET)
    assert (code, f"pinet: {message}" in out) == (1, True), out
    assert "  CC      a.o\n" in out
    code, out = gate("--good=v2", "--bad=v1", "--exact", *QUIET)
    assert (code, f"pinet: --good v2: {message}; name a commit that compiles" in out) == (4, True), out


def test_words_behind_the_options_go_to_pytest(repository: KernelRepository, gate: Gate) -> None:
    repository.commit("v2", {"drivers/a.c": "changed\n"})
    Path("test_given_words.py").write_text(
        "import pytest\n\n@pytest.mark.exact(nic='macb')\ndef test_it(exact_gate):\n    assert exact_gate()\n"
    )
    code, out = gate("--good=v1", "--exact", "test_given_words.py", "-v", *QUIET)
    assert (code, "test_given_words.py::test_it[macb] PASSED" in out) == (0, True), out
    code, out = gate("--good=v1", "--exact", "-k", "no_such_test", *QUIET)
    assert (code, "no test is selected" in out) == (4, True), out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--good=v1"], "--tree: boards need --config with the configuration of their kernel, a file or the name"),
        ([], "--tree needs --good REF, the known-good commit"),
        (["--good=v1", "--exact"], "--good v1 and --bad HEAD are the same commit"),
        (["--good=v1", "--exact", "out/"], "--tree builds both sides itself: leave out BUILD (out/)"),
        (["--good=v1", "--exact", "--against=x"], "--tree builds both sides itself: leave out --against"),
        (["--good=v1", "--exact", "--bisect"], "--tree builds both sides itself: leave out --bisect"),
        (["--god", "v1", "--exact"], "unknown option '--god', did you mean '--good'?"),
        (["--good=v1", "--exact", "--nic=foo"], "--nic: unknown NIC of exact boards 'foo'; accepted: aqc, "),
        (["--good=mian", "--exact"], "has no commit 'mian', did you mean 'main'?"),
    ],
)
def test_mistakes_are_one_sentence(gate: Gate, words: list[str], message: str) -> None:
    code, out = gate(*words)
    assert (code in (4, 132), message in out) == (True, True), out


@pytest.mark.parametrize("option", ["--good", "--bad", "--config"])
def test_options_of_a_tree_need_one(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gate", "build/", option, "x"]) == 4
    assert f"pinet: {option} is for --tree DIR, the git repository of the kernel\n" in capsys.readouterr().err
    assert run(["gate"]) == 4
    assert "pinet: name a BUILD, or two commits of a kernel tree: --tree DIR --good REF\n" in capsys.readouterr().err
