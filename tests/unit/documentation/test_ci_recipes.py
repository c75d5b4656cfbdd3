"""The recipes for CI run as their services run them: in a clean clone, with the service's shells and variables.

The kernel tree is a stand-in whose ``make`` copies files of a build. pytest, gate and reports are real; the boards are
simulated.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.support import build_files
from tests.support.change_session import Bench, bench_with
from tests.support.console_blocks import DOCS, ROOT

PAGE = (DOCS / "how-to" / "ci.md").read_text(encoding="utf-8")
KNOWN_GOOD = "/srv/known-good"
NUMBER = "7"
RELEASE = f"6.12.25-ci{NUMBER}"
VERMAGIC = build_files.VERMAGIC.replace(build_files.RELEASE, RELEASE)
SLOWER = 'PLAN = Plan(ratio={"onboard": 0.97, "ax88179": 0.97})'
MAKEFILE = """\
olddefconfig:
\ttest -f .config
Image:
\ttest "$(LOCALVERSION) $(ARCH) $(CROSS_COMPILE)" = "-ci7 arm64 aarch64-linux-gnu-"
\tmkdir -p arch/arm64/boot && cp made/Image arch/arm64/boot/
modules dtbs:
modules_install:
\tmkdir -p $(INSTALL_MOD_PATH) && cp -r made/tree/lib $(INSTALL_MOD_PATH)/
dtbs_install:
\tmkdir -p $(INSTALL_DTBS_PATH)/broadcom && cp made/*.dtb $(INSTALL_DTBS_PATH)/broadcom/
.PHONY: olddefconfig Image modules dtbs modules_install dtbs_install
"""

pytestmark = pytest.mark.slow
Job = Callable[..., int]


def recipe(heading: str) -> Any:
    """Return the YAML below a heading of the page."""
    found = re.search(rf"^## {heading}$.*?```yaml\n(.*?)```", PAGE, re.M | re.S)
    assert found is not None
    # YAML 1.1 reads the key `on` as true.
    return yaml.safe_load(found[1].replace("on: [", "'on': ["))


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@localhost", *words], cwd=folder, check=True)


class Runner:
    """A machine that runs jobs, with a kernel repository and a known-good build."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.folder = bench.pytester.path
        known = build_files.write(self.folder / "known" / "build", build_files.tree())
        (known / "Image").write_bytes(build_files.image())
        (self.folder / "known" / "config").write_text("CONFIG_NET=y\n")
        tree = self.folder / "linux"
        made = {
            f"tree/{name}": data
            for name, data in build_files.tree(RELEASE, e1000e=build_files.module("e1000e", VERMAGIC)).items()
        }
        made |= {
            "Image": build_files.image(RELEASE, vermagic=VERMAGIC),
            "bcm2711-rpi-4-b.dtb": build_files.device_tree(),
        }
        build_files.write(tree / "made", made)
        (tree / "Makefile").write_text(MAKEFILE)
        git(self.folder, "init", "-q", "linux")
        git(tree, "add", ".")
        git(tree, "commit", "-qm", "a change")
        self.work = self.folder / "work"

    def clone(self) -> None:
        git(self.folder, "clone", "-q", "linux", "work")
        # What the simulated boards are is no part of the job.
        for name in ("conftest.py", "plans.py", "tox.ini"):
            (self.work / name).write_bytes((self.folder / name).read_bytes())

    def shell(self, script: str, variables: Mapping[str, object], *shell: str) -> int:
        environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
        environment |= {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT}:{self.work}",
            "PINET_LAB": str(self.folder / "lab.yaml"),
            "PYTEST_ADDOPTS": "-p no:hypothesispytest -p no:cacheprovider",
            "PINET_HISTORY": "off",
            "GITHUB_STEP_SUMMARY": str(self.folder / "step.md"),
            "CI_PIPELINE_IID": NUMBER,
        }
        text = script.replace(KNOWN_GOOD, str(self.folder / "known"))
        done = subprocess.run(
            [*shell, "-c", text],
            cwd=self.work,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        print(done.stdout, done.stderr)  # noqa: T201  (pytest shows it when the test fails)
        self.said = done.stdout
        return done.returncode

    def github(self) -> int:
        """Run the job. Return the exit code of the first step that fails; later steps run only with ``always()``."""
        job = recipe("GitHub")["jobs"]["throughput"]
        variables = {name: text.replace("${{ github.run_number }}", NUMBER) for name, text in job["env"].items()}
        result = 0
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                self.clone()
            elif "run" in step and (not result or step.get("if") == "always()"):
                code = self.shell(step["run"], variables, "bash", "-e")
                result = result or code
        return result

    def gitlab(self) -> int:
        """Run the job. Its lines are one script; the shell of ``after_script`` is another."""
        job = recipe("GitLab")["throughput"]
        self.clone()
        result = self.shell("\n".join(job["script"]), job["variables"], "bash", "-e", "-o", "pipefail")
        self.shell("\n".join(job["after_script"]), job["variables"], "bash", "-e", "-o", "pipefail")
        return result


@pytest.fixture
def runner(pytester: pytest.Pytester) -> Iterator[Runner]:
    with bench_with(pytester, "") as bench:
        yield Runner(bench)


def test_github_passes_a_change_that_is_not_slower(runner: Runner) -> None:
    assert runner.github() == 0
    assert "may be merged" in (runner.folder / "step.md").read_text()
    steps = recipe("GitHub")["jobs"]["throughput"]["steps"]
    (upload,) = (step for step in steps if step.get("uses", "").startswith("actions/upload-artifact@"))
    for path in upload["with"]["path"].split():
        assert (runner.work / path).exists(), path
    assert len(list((runner.work / "allure-results").glob("*-result.json"))) > 0


def test_github_refuses_a_slower_change_and_says_so(runner: Runner) -> None:
    runner.bench.plan(SLOWER)
    assert runner.github() == 1
    assert "must not be merged" in (runner.folder / "step.md").read_text()


def test_gitlab_refuses_a_slower_change_and_shows_its_tests(runner: Runner) -> None:
    runner.bench.plan(SLOWER)
    assert runner.gitlab() == 1
    assert "must not be merged" in runner.said
    artifacts = recipe("GitLab")["throughput"]["artifacts"]
    cases = ElementTree.parse(runner.work / artifacts["reports"]["junit"]).iter("testcase")
    assert any(case.find("failure") is not None for case in cases)
    assert (runner.work / artifacts["paths"][0] / "results.json").exists()


@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_a_change_that_does_not_compile_fails_and_is_no_broken_lab(runner: Runner, service: str) -> None:
    (runner.folder / "linux" / "made" / "Image").unlink()
    git(runner.folder / "linux", "commit", "-qam", "does not compile")
    code = {"github": runner.github, "gitlab": runner.gitlab}[service]()
    # GitHub knows no exit code that is only a warning.
    warnings = recipe("GitLab")["throughput"]["allow_failure"]["exit_codes"] if service == "gitlab" else []
    assert code not in (0, *warnings)
    assert not (runner.work / "junit.xml").exists()


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (1, 1), (2, 0), (3, 0), (4, 4)])
def test_the_script_that_only_warns(code: int, expected: int, tmp_path: Path) -> None:
    found = re.search(r"```bash\n(.*?)```", PAGE, re.S)
    assert found is not None
    (tmp_path / "pinet").write_text(f"#!/bin/sh\nexit {code}\n")
    (tmp_path / "pinet").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-e", "-c", found[1]], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == expected
    assert ("::warning::" in done.stdout) == (code in (2, 3))
