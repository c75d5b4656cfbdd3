import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_pinet.errors import ConfigError
from pytest_pinet.report.run_folder import RunFolder, safe_name, write_json
from tests.support.report_records import NIGHT, run_record

NOW = datetime(2026, 11, 21, 0, 1, 2, tzinfo=UTC)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def create_many(root: str, barrier: Any, names: Any) -> None:
    barrier.wait()
    names.put([RunFolder.create(Path(root), NOW).run for _ in range(10)])


class TestCreate:
    def test_is_named_after_utc_and_latest_points_to_it(self, tmp_path: Path) -> None:
        berlin = timezone(timedelta(hours=1))

        folder = RunFolder.create(tmp_path, NOW.astimezone(berlin))

        assert folder.path == tmp_path / ".pinet" / "runs" / "20261121-000102"
        assert (tmp_path / ".pinet" / "latest").readlink() == Path("runs/20261121-000102")
        assert (tmp_path / ".pinet" / ".gitignore").read_text() == "*\n"

    def test_runs_of_the_same_second_are_numbered(self, tmp_path: Path) -> None:
        runs = [RunFolder.create(tmp_path, NOW).run for _ in range(3)]

        assert runs == ["20261121-000102", "20261121-000102-2", "20261121-000102-3"]
        assert (tmp_path / ".pinet" / "latest").resolve().name == "20261121-000102-3"

    def test_two_processes_in_the_same_second_never_share_a_folder(self, tmp_path: Path) -> None:
        context = multiprocessing.get_context("spawn")
        barrier, names = context.Barrier(2), context.Queue()
        processes = [context.Process(target=create_many, args=(str(tmp_path), barrier, names)) for _ in range(2)]
        for process in processes:
            process.start()

        taken = names.get(timeout=60) + names.get(timeout=60)
        for process in processes:
            process.join(10)

        assert len(set(taken)) == 20
        assert names_in(tmp_path / ".pinet") == [".gitignore", "latest", "runs"]
        assert (tmp_path / ".pinet" / "latest").resolve().name in taken

    def test_a_users_gitignore_is_kept(self, tmp_path: Path) -> None:
        (tmp_path / ".pinet").mkdir()
        (tmp_path / ".pinet" / ".gitignore").write_text("runs\n")

        RunFolder.create(tmp_path, NOW)

        assert (tmp_path / ".pinet" / ".gitignore").read_text() == "runs\n"

    def test_a_root_that_is_a_file_is_one_sentence(self, tmp_path: Path) -> None:
        root = tmp_path / "file"
        root.touch()

        with pytest.raises(ConfigError) as caught:
            RunFolder.create(root, NOW)

        assert str(caught.value) == f"cannot write {root}/.pinet: Not a directory; choose another with --pinet-run-dir"

    def test_a_folder_in_the_place_of_latest_is_one_sentence_and_leaves_no_litter(self, tmp_path: Path) -> None:
        (tmp_path / ".pinet" / "latest").mkdir(parents=True)

        with pytest.raises(ConfigError, match=r"--pinet-run-dir"):
            RunFolder.create(tmp_path, NOW)

        assert names_in(tmp_path / ".pinet") == [".gitignore", "latest", "runs"]


class TestResults:
    def test_results_json_is_the_run(self, tmp_path: Path) -> None:
        folder = RunFolder.create(tmp_path, NOW)

        folder.write_results(run_record(NIGHT))

        assert json.loads((folder.path / "results.json").read_text()) == run_record(NIGHT).dump()

    def test_each_result_is_there_at_once(self, tmp_path: Path) -> None:
        folder = RunFolder.create(tmp_path, NOW)

        for one in NIGHT:
            folder.append(one)

        lines = (folder.path / "results.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == [one.dump() for one in NIGHT]

    def test_appended_results_outlive_a_kill(self, tmp_path: Path) -> None:
        script = (
            "import os, signal, sys; from pathlib import Path; from tests.support.report_records import NIGHT;"
            "from pytest_pinet.report.run_folder import RunFolder;"
            "RunFolder(Path(sys.argv[1])).append(NIGHT[0]); os.kill(os.getpid(), signal.SIGKILL)"
        )

        ended = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)], cwd=Path(__file__).parents[3], check=False
        )

        assert ended.returncode == -signal.SIGKILL
        assert json.loads((tmp_path / "results.jsonl").read_text()) == NIGHT[0].dump()

    def test_a_full_disk_is_one_sentence(self, tmp_path: Path) -> None:
        (tmp_path / "results.jsonl").symlink_to("/dev/full")

        with pytest.raises(ConfigError) as caught:
            RunFolder(tmp_path).append(NIGHT[0])

        assert str(caught.value) == (
            f"cannot write {tmp_path}/results.jsonl: No space left on device; choose another with --pinet-run-dir"
        )


class TestRaw:
    def test_files_stand_below_raw_and_are_named_relative_to_the_run(self, tmp_path: Path) -> None:
        paths = RunFolder(tmp_path).write_raw(
            "t.py::test_it[pi4b:onboard/pair]", {"client.json": "{}", "server.json": ""}
        )

        name = safe_name("t.py::test_it[pi4b:onboard/pair]")
        assert name.startswith("pi4b_onboard_pair-")
        assert paths == [f"raw/{name}/client.json", f"raw/{name}/server.json"]
        assert (tmp_path / paths[0]).read_text() == "{}"

    def test_a_rerun_keeps_the_files_of_the_first_attempt(self, tmp_path: Path) -> None:
        first, second = (RunFolder(tmp_path).write_raw("a", {"client.json": text}) for text in ("1", "2"))

        assert [(tmp_path / path).read_text() for path in first + second] == ["1", "2"]

    @pytest.mark.parametrize(
        "odd", ["../../etc/passwd", "..", ".", "", "/", "a/../../b", "x\0y", "é" * 300, "\udcff", "-rf"]
    )
    def test_odd_names_stay_inside(self, tmp_path: Path, odd: str) -> None:
        run = tmp_path / "run"
        run.mkdir()

        (path,) = RunFolder(run).write_raw(odd, {odd: "text \udcff"})

        assert (run / path).resolve().is_relative_to(run / "raw")
        assert (run / path).read_bytes() == b"text \\udcff"
        assert names_in(tmp_path) == ["run"]

    @settings(deadline=None)
    @given(st.text())
    def test_a_safe_name_is_one_short_plain_word(self, text: str) -> None:
        name = safe_name(text)

        assert name.isascii()
        assert name.replace("-", "").replace("_", "").isalnum()
        assert len(name) <= 35

    @settings(deadline=None)
    @given(st.sets(st.text("aA/.:_[] ", max_size=30) | st.text("x", min_size=20, max_size=400), max_size=50))
    def test_different_ids_never_share_a_name_even_where_case_is_lost(self, ids: set[str]) -> None:
        assert len({safe_name(one).lower() for one in ids}) == len(ids)


class TestJsonFile:
    def test_makes_parents_and_ends_with_a_newline(self, tmp_path: Path) -> None:
        path = tmp_path / "a" / "b" / "pinet.json"

        write_json(path, run_record(NIGHT))

        assert json.loads(path.read_text()) == run_record(NIGHT).dump()
        assert path.read_text().endswith("}\n")
        assert names_in(path.parent) == ["pinet.json"]

    def test_others_may_read_it_as_the_umask_says(self, tmp_path: Path) -> None:
        old = os.umask(0o022)
        try:
            write_json(tmp_path / "pinet.json", run_record([]))
        finally:
            os.umask(old)

        assert (tmp_path / "pinet.json").stat().st_mode & 0o777 == 0o644

    def test_a_kill_in_between_leaves_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "pinet.json"
        write_json(path, run_record(NIGHT))
        script = (
            "import os, signal, sys; from pathlib import Path; from tests.support.report_records import run_record;"
            "from pytest_pinet.report.run_folder import write_json;"
            "os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL);"
            "write_json(Path(sys.argv[1]), run_record([]))"
        )

        ended = subprocess.run([sys.executable, "-c", script, str(path)], cwd=Path(__file__).parents[3], check=False)

        assert ended.returncode == -signal.SIGKILL
        assert json.loads(path.read_text()) == run_record(NIGHT).dump()

    def test_a_full_disk_leaves_the_old_file_and_no_litter(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "pinet.json"
        write_json(path, run_record(NIGHT))

        def full(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ConfigError) as caught:
            write_json(path, run_record([]))

        assert str(caught.value) == f"cannot write {path}: No space left on device; choose another with --pinet-json"
        assert json.loads(path.read_text()) == run_record(NIGHT).dump()
        assert names_in(tmp_path) == ["pinet.json"]

    def test_a_folder_in_its_place_is_one_sentence(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"^cannot write .*: Is a directory; choose another with --pinet-json$"):
            write_json(tmp_path, run_record([]))

    def test_a_link_stays_a_link(self, tmp_path: Path) -> None:
        target, link = tmp_path / "target.json", tmp_path / "link.json"
        target.touch()
        link.symlink_to(target)

        write_json(link, run_record([]))

        assert link.is_symlink()
        assert json.loads(target.read_text())["schema"] == 1

    def test_a_device_is_written_to_and_not_replaced(self) -> None:
        # As root, a rename onto /dev/null would break the machine.
        write_json(Path("/dev/null"), run_record([]))

        assert Path("/dev/null").is_char_device()
