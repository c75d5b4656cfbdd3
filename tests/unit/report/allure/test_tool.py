"""Everything around Allure's command, which is a stand-in here.

The real command is tested in tests/functional/report/test_allure_report.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_pinet.errors import ConfigError
from pytest_pinet.report.allure.run_files import metrics
from pytest_pinet.report.allure.tool import VARIABLE, Allure, find_allure, generate, performance, without_analytics
from tests.support.report_records import NIGHT

# The original end of index.html of Allure 3.18.0, then of 2.46.1.
ALLURE_3 = """\
    <script   src="app-b3323b2606f19801ef1b.js"></script>
    <script async src="https://www.googletagmanager.com/gtag/js?id=G-LNDJ3J7WT0"></script>
    <script>
        window.dataLayer = window.dataLayer || [];
        function gtag(){dataLayer.push(arguments);}
        gtag('js', new Date());
        gtag('config', 'G-LNDJ3J7WT0', {
          "report": "awesome",
          "single_file": "false"
        });
    </script>

      <script async>
        window.allureReportDataReady = true;
      </script>
"""
ALLURE_2 = """\
    <script src="assets/index-CqG5t6J2.js"></script>
    <script>
        if (typeof window.__allureResolveCoreLoaded === "function") {
            window.__allureResolveCoreLoaded([]);
        }
    </script>
    <script async src="https://www.googletagmanager.com/gtag/js?id=G-FVWC4GKEYS"></script>
    <script>
        window.dataLayer = window.dataLayer || [];
        function gtag(){dataLayer.push(arguments);}
    </script>
"""
FAKE = """\
#!/bin/sh
if [ "$1" = --version ]; then echo {version}; exit; fi
{generate}
"""
# Both versions name the output: Allure 2 with -o, Allure 3 in its configuration.
MAKE = """\
out=$(printf '%s\\n' "$@" | sed -n '/^-o$/{n;p}')
for word; do case $word in *allurerc.json) cp "$word" "$PROOF/rc.json"; cp "${word%/*}/history.jsonl" "$PROOF"
    out=$(sed 's/.*"output": "\\([^"]*\\)".*/\\1/' "$word");; */results) cp "$word"/history/* "$PROOF";; esac; done
echo "$ALLURE_NO_ANALYTICS" > "$PROOF/analytics"
mkdir -p "$out"; echo "$PAGE" > "$out/index.html"; echo x > "$out/app.js"
"""


def fake(folder: Path, version: str, generate: str = MAKE) -> Path:
    command = folder / "node_modules" / ".bin" / "allure"
    command.parent.mkdir(parents=True)
    command.write_text(FAKE.replace("{version}", version).replace("{generate}", generate))
    command.chmod(0o755)
    return command


@pytest.fixture
def proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which the stand-in stores its input."""
    folder = tmp_path / "proof"
    folder.mkdir()
    monkeypatch.setenv("PROOF", str(folder))
    monkeypatch.setenv("PAGE", f"<html><body>{ALLURE_3}</body></html>")
    monkeypatch.delenv(VARIABLE, raising=False)
    return folder


@pytest.mark.parametrize(
    ("page", "kept"), [(ALLURE_3, "allureReportDataReady"), (ALLURE_2, "__allureResolveCoreLoaded")]
)
def test_only_the_scripts_that_tell_google_are_removed(page: str, kept: str) -> None:
    stripped = without_analytics(page)
    assert "google" not in stripped
    assert "dataLayer" not in stripped
    assert kept in stripped
    assert stripped.count("<script") == page.count("<script") - 2


def test_allure_3_goes_before_2_wherever_they_are(proof: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two, three = fake(tmp_path / "two", "2.46.1"), fake(tmp_path / "three", "3.18.0")
    monkeypatch.setenv("PATH", f"{two.parent}:/usr/bin:/bin")
    assert find_allure([tmp_path / "three"]) == Allure(str(three), (3, 18, 0))
    found = find_allure([])
    assert found == Allure(str(two), (2, 46, 1))
    assert not found.has_metrics


def test_the_node_of_our_own_environment_goes_before_an_older_one_of_the_system(
    proof: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = fake(tmp_path, "3.18.0")
    command.write_text("#!/usr/bin/env node\n")
    for folder, version in (("system", ""), ("venv/bin", "3.18.0")):
        node = tmp_path / folder / "node"
        node.parent.mkdir(parents=True)
        node.write_text(f"#!/bin/sh\necho {version}\n")
        node.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'system'}:/usr/bin:/bin")
    assert find_allure([tmp_path]) is None
    monkeypatch.setattr("sys.prefix", str(tmp_path / "venv"))
    assert find_allure([tmp_path]) == Allure(str(command), (3, 18, 0))


def test_without_allure_there_is_none(proof: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    broken = fake(tmp_path, "no version at all")
    assert broken.is_file()
    assert find_allure([tmp_path, tmp_path / "nowhere"]) is None


def test_one_that_is_named_must_answer(proof: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/nowhere/allure")
    with pytest.raises(ConfigError, match="PINET_ALLURE=/nowhere/allure does not report its version; expected"):
        find_allure([])


def test_allure_3_gets_a_history_that_it_must_not_append_to(proof: Path, tmp_path: Path) -> None:
    allure = Allure(str(fake(tmp_path, "3.18.0")), (3, 18, 0))
    generate(allure, tmp_path, "{}\n", "kernel 6.12", tmp_path / "out" / "report.html", single=True)
    config = json.loads((proof / "rc.json").read_text())
    assert config["appendHistory"] is False
    assert config["plugins"]["awesome"]["options"]["singleFile"] is True
    assert config["categories"]["rules"][0]["name"] == "Regression"
    assert (proof / "history.jsonl").read_text() == "{}\n"
    page = (tmp_path / "out" / "report.html").read_text()
    assert "google" not in page
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]


def test_names_and_units_of_metrics_stand_where_allure_documents_them(proof: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    (results / "1-perf.json").write_text(json.dumps(metrics(NIGHT[:1])))
    (results / "2-perf.json").write_text('[{"id": "of another plugin", "key": "x", "value": 1}]')
    (results / "3-perf.json").write_text("{")
    key = "pi3b:onboard/pair/tcp-P1-tx"
    named = {"title": "pi3b:onboard/pair tcp-P1 tx", "unit": "Mbit/s", "better": "higher", "group": "pi3b"}
    assert performance(results) == {"metrics": {key: named}, "groups": {"pi3b": {"title": "pi3b"}}}
    allure = Allure(str(fake(tmp_path, "3.18.0")), (3, 18, 0))
    generate(allure, results, "", "x", tmp_path / "report.html", single=True)
    assert json.loads((proof / "rc.json").read_text())["performance"] == performance(results)


def test_allure_2_gets_its_history_beside_the_results_and_no_analytics(proof: Path, tmp_path: Path) -> None:
    allure = Allure(str(fake(tmp_path, "2.46.1")), (2, 46, 1))
    results = tmp_path / "res"
    results.mkdir()
    generate(allure, results, {"history.json": "{}"}, "x", tmp_path / "report.html", single=True)
    assert (proof / "history.json").read_text() == "{}"
    assert (proof / "analytics").read_text() == "true\n"
    assert list(results.iterdir()) == []


def test_allure_2_gets_no_second_history_which_it_would_add_to_that_of_the_run(proof: Path, tmp_path: Path) -> None:
    allure = Allure(str(fake(tmp_path, "2.46.1")), (2, 46, 1))
    (tmp_path / "res" / "history").mkdir(parents=True)

    generate(allure, tmp_path / "res", {"history.json": "{}"}, "x", tmp_path / "report.html", single=True)

    assert not (proof / "history.json").exists()


def test_a_report_of_many_files_replaces_an_old_one_as_a_whole(proof: Path, tmp_path: Path) -> None:
    """Allure 3 would keep the old index.html and put the new one beneath it."""
    allure = Allure(str(fake(tmp_path / "a", "3.18.0")), (3, 18, 0))
    out = tmp_path / "report"
    out.mkdir()
    (out / "old.html").write_text("")
    generate(allure, tmp_path, "", "x", out, single=False)
    assert sorted(path.name for path in out.iterdir()) == ["app.js", "index.html"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "echo no space left >&2; exit 3",
            r"failed with exit code 3: no space left; pinet report --page needs no Allure",
        ),
        ("exit 0", r"made no index.html from .*; run by hand"),
    ],
)
def test_what_goes_wrong_is_said_and_the_old_report_stays(
    proof: Path, tmp_path: Path, script: str, message: str
) -> None:
    allure = Allure(str(fake(tmp_path / "a", "3.18.0", script)), (3, 18, 0))
    out = tmp_path / "out" / "report.html"
    out.parent.mkdir()
    out.write_text("old")
    with pytest.raises(ConfigError, match=message):
        generate(allure, tmp_path, "", "x", out, single=True)
    assert out.read_text() == "old"
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]


def test_a_page_that_still_asks_google_is_not_kept(
    proof: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGE", "<link rel=preload href=https://www.googletagmanager.com/new.js>")
    allure = Allure(str(fake(tmp_path / "a", "4.0.0")), (4, 0, 0))
    with pytest.raises(ConfigError, match="this version of Allure is not supported; use --page"):
        generate(allure, tmp_path, "", "x", tmp_path / "report.html", single=True)
    assert not (tmp_path / "report.html").exists()
