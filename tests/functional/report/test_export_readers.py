"""Exports read by the programs that they are for.

These programs are no packages of PyPI. ``$PINET_READERS`` names a folder with what was fetched: ``nipa`` and
``test-definitions`` (repositories linux-netdev/nipa and Linaro/test-definitions), ``kunit`` (a link to a folder
tools/testing/kunit of Linux: ``kunit.py`` ends if its path has another name), ``lava`` (Debian's lava-dispatcher, the
folder lava_dispatcher), ``openqa`` (repository os-autoinst/openQA; with Debian's libmojolicious-perl and
libfeature-compat-try-perl), and ``bin`` (promtool, prometheus-pushgateway, prometheus-node-exporter). A test whose
program is missing is skipped.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.report.export.cases import by_group, cases_of, ktap, lava, nipa
from pytest_pinet.report.export.openmetrics import prometheus
from tests.support.export_runs import RUNS, points
from tests.support.ports import free_port

pytestmark = pytest.mark.slow
BRANCH = {"branch": "net-next-2026-11-23--12-00"}


def reader(*parts: str) -> Path:
    """Return the path of a program or a module; skip the test if it is missing."""
    folder = os.environ.get("PINET_READERS")
    if not folder:
        pytest.skip("PINET_READERS names no folder of readers")
    path = Path(folder, *parts)
    if not path.exists():
        pytest.skip(f"{path} is missing")
    return path


def module_of(path: Path, **stubs: ModuleType) -> ModuleType:
    """Import a file that is no package."""
    spec = importlib.util.spec_from_file_location(path.stem.replace("-", "_"), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> RunRecord:
    return RUNS[request.param]


def of_verdicts(run: RunRecord, **names: str) -> dict[str, str]:
    """Return the result of each metric in the words of a reader: ``good``, ``fail``, and ``other``."""
    words = {"pass": "good", "marginal": "good", "improved": "good", "fail": "fail"}
    return {case.name: names[words.get(case.verdict, "other")] for case in cases_of(run)}


def test_nipa_reads_ktap(run: RunRecord) -> None:
    results = module_of(reader("nipa", "contest", "remote", "lib", "results.py"))
    text = ktap(run, {})
    found = results.parse_nested_tests(text, lambda name: name)
    wanted = [
        (case.label, "pass" if of_verdicts(run, good="p", fail="f", other="f")[case.name] == "p" else "fail")
        for cases in by_group(cases_of(run)).values()
        for case in cases
    ]
    assert [(one["test"], one["result"]) for one in found] == wanted
    assert all(one["time"] == 8 or run is RUNS["exact"] for one in found)
    indicators = results.guess_indicators(text)
    assert not indicators["skip"]
    assert results.result_from_indicators(0, indicators) == "fail"


def test_linaro_reads_ktap(run: RunRecord, tmp_path: Path) -> None:
    script = reader("test-definitions", "automated", "linux", "kselftest", "parse-output.py")
    (tmp_path / "output").mkdir()
    done = subprocess.run(
        [sys.executable, script], input=ktap(run, {}), text=True, capture_output=True, cwd=tmp_path, check=True
    )
    # tap.py prints a warning about a library that it does not need here.
    found = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines() if line.startswith("pinet_"))
    for name, result in of_verdicts(run, good="pass", fail="fail", other="fail").items():
        assert found["pinet_" + name.replace(".", "_")] == result


def test_kunit_reads_ktap(run: RunRecord, tmp_path: Path) -> None:
    script = reader("kunit", "kunit.py")
    (tmp_path / "log").write_text(ktap(run, {}))
    command = [sys.executable, str(script), "parse", f"--json={tmp_path / 'out.json'}", str(tmp_path / "log")]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert done.returncode == 1
    cases = json.loads((tmp_path / "out.json").read_text())["test_cases"]
    groups = by_group(cases_of(run))
    assert [one["name"] for one in cases] == [f"selftests: pinet: {group}" for group in groups]
    bad = {
        group for group, own in groups.items() if any(c.verdict not in ("pass", "marginal", "improved") for c in own)
    }
    assert {one["name"].split(": ")[2] for one in cases if one["status"] == "FAIL"} == bad
    assert "Crashed" not in done.stdout.replace("Crashed: 0", "")


# Of all functions of OpenQA::Utils, which needs the whole of openQA, the parser uses one.
_UTILS = """\
package OpenQA::Utils;
use Mojo::Base -strict, -signatures;
use Scalar::Util "reftype";
use Exporter "import";
our @EXPORT_OK = ("walker");
"""
_OPENQA = """\
use OpenQA::Parser "p";
p(KTAP => $ARGV[0])->generated_tests_results->each(sub {
    my $group = shift;
    printf "%s %s\\n", $group->name, $group->result;
    printf "%s.%s %s\\n", $group->name, $_->{title}, $_->{result} for @{$group->details};
});
"""


def test_openqa_reads_ktap(run: RunRecord, tmp_path: Path) -> None:
    """openQA writes the dots in the name of a combination as underscores."""
    library = reader("openqa", "lib")
    if subprocess.run(["perl", "-MMojo::Base", "-MFeature::Compat::Try", "-e1"], capture_output=True).returncode:
        pytest.skip("perl lacks Mojo::Base or Feature::Compat::Try")
    walker = re.search(r"^sub walker .*?^}", (library / "OpenQA" / "Utils.pm").read_text(), re.M | re.S)
    assert walker is not None
    (tmp_path / "OpenQA").mkdir()
    (tmp_path / "OpenQA" / "Utils.pm").write_text(f"{_UTILS}{walker[0]}\n1;\n")
    (tmp_path / "log").write_text(ktap(run, {}))
    command = ["perl", f"-I{tmp_path}", f"-I{library}", "-e", _OPENQA, str(tmp_path / "log")]
    done = subprocess.run(command, text=True, capture_output=True, check=True)
    found = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines())
    outcomes = of_verdicts(run, good="ok", fail="fail", other="fail")
    wanted: dict[str, str] = {}
    for group, cases in by_group(cases_of(run)).items():
        name = group.replace(".", "_")
        own = {f"{name}.{case.label}": outcomes[case.name] for case in cases}
        wanted |= own | {name: "passed" if set(own.values()) == {"ok"} else "fail"}
    assert found == wanted


def test_lava_reads_its_signals(run: RunRecord) -> None:
    """Executes ``handle_testcase`` of the dispatcher, cut out of its module, which needs all of LAVA."""
    source = reader("lava", "actions", "test", "shell.py").read_text()
    (function,) = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == "handle_testcase"]
    names: dict[str, Any] = {"JobError": ValueError}
    exec(compile(ast.Module([function], []), "shell.py", "exec"), names)
    found = {}
    for line in lava(run, {}).splitlines():
        # lava_dispatcher/actions/test/shell.py: the pattern of the signals.
        match = re.fullmatch(r"<LAVA_SIGNAL_(\S+) ([^>]+)>", line)
        assert match is not None
        data = names["handle_testcase"](match[2].split())
        found[data["test_case_id"]] = data["result"]
        assert float(data.get("measurement", "0")) >= 0
    assert found == of_verdicts(run, good="pass", fail="fail", other="unknown")


def test_nipas_collector_takes_the_file(run: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("psycopg2", "requests"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    collector: Any = module_of(reader("nipa", "contest", "results-collector.py"))
    data = json.loads(nipa(run, BRANCH))
    flat = collector.result_flatten(data)
    assert len(flat) == len(data["results"]) + len(cases_of(run))
    assert {row["subtest"]: row["result"] for row in flat if row["subtest"]}
    entry = {"branch": data["branch"], "executor": data["executor"]}
    done = entry | {"url": "https://ci.example.org/results/1.json"}
    collector.validate_manifest_result_basenames([done, done | {"branch": "net-2", "url": "https://x/2.json"}])
    collector.validate_manifest_wip_order([entry | {"url": None}], [done])
    assert collector.result_matches_manifest_entry(data, done)

    class Fetcher:
        def psql_get_unstable(self, data: Any) -> Any:
            first = next(row for row in flat if row["subtest"] and not row["result"])
            return {(first["group"], first["test"], first["subtest"]): first}

    before = sum(len(test["results"]) for test in data["results"])
    collector.apply_stability(Fetcher(), data | {"remote": "pinet"}, {})
    assert sum(len(test["results"]) for test in data["results"]) <= before


@pytest.fixture
def pushgateway() -> Iterator[str]:
    port = free_port()
    command = [str(reader("bin", "prometheus-pushgateway")), f"--web.listen-address=127.0.0.1:{port}"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        url = f"http://127.0.0.1:{port}"
        for _ in range(100):
            try:
                urllib.request.urlopen(f"{url}/-/ready", timeout=1)
                break
            except OSError:
                time.sleep(0.1)
        yield url
        process.terminate()


def test_pushgateway_takes_it(run: RunRecord, pushgateway: str) -> None:
    text = prometheus(points(run)).encode()
    request = urllib.request.Request(f"{pushgateway}/metrics/job/pinet/lab/bench", data=text, method="PUT")
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200
    with urllib.request.urlopen(f"{pushgateway}/metrics", timeout=10) as answer:
        assert b"pinet_goodput_bits_per_second{" in answer.read()


def test_promtool_takes_it(run: RunRecord) -> None:
    done = subprocess.run(
        [reader("bin", "promtool"), "check", "metrics"], input=prometheus(points(run)), text=True, capture_output=True,
        check=False,
    )  # fmt: skip
    assert done.returncode in (0, 3), done.stdout + done.stderr
    assert "error while linting" not in done.stderr


def test_node_exporter_shows_it(run: RunRecord, tmp_path: Path) -> None:
    (tmp_path / "pinet.prom").write_text(prometheus(points(run)))
    port = free_port()
    command = [
        str(reader("bin", "prometheus-node-exporter")), f"--web.listen-address=127.0.0.1:{port}",
        "--collector.disable-defaults", "--collector.textfile", f"--collector.textfile.directory={tmp_path}",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        text = b""
        for _ in range(100):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                    text = answer.read()
                break
            except OSError:
                time.sleep(0.1)
        process.terminate()
    assert b"node_textfile_scrape_error 0" in text
    assert b"pinet_goodput_bits_per_second{" in text
