"""The files of the step-by-step CI examples follow the schemas of their services; actionlint finds nothing in them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.console_blocks import DOCS, ROOT


def blocks(page: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", (DOCS / "how-to" / page).read_text(encoding="utf-8"), re.S)


def check(schema: str, file: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_action_follows_its_schema() -> None:
    check("vendor.github-actions", ROOT / "action.yml")


def test_the_component_follows_its_schema(tmp_path: Path) -> None:
    """The schema knows jobs, not the spec before them."""
    text = (ROOT / "templates" / "gate.yml").read_text(encoding="utf-8").partition("\n---\n")[2]
    (tmp_path / "gate.yml").write_text(re.sub(r"\$\[\[ inputs\.(\w+) \]\]", r"\1", text))
    check("vendor.gitlab-ci", tmp_path / "gate.yml")


@pytest.mark.parametrize(
    ("page", "schema"), [("ci-github.md", "vendor.github-workflows"), ("ci-gitlab.md", "vendor.gitlab-ci")]
)
def test_each_file_of_a_walk_follows_its_schema(page: str, schema: str, tmp_path: Path) -> None:
    found = blocks(page)
    assert len(found) == 3
    for number, text in enumerate(found):
        (tmp_path / f"{number}.yml").write_text(text)
        check(schema, tmp_path / f"{number}.yml")


def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    """Go installs it: github.com/rhysd/actionlint/cmd/actionlint. It also checks inputs of the action."""
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        pytest.skip("actionlint is not installed")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    workflows = tmp_path / ".github" / "workflows"
    workflows.mkdir(parents=True)
    (tmp_path / ".github" / "actionlint.yaml").write_text("self-hosted-runner:\n  labels: [network-lab]\n")
    shutil.copyfile(ROOT / "action.yml", tmp_path / "action.yml")
    for number, text in enumerate(blocks("ci-github.md")):
        # The action of this checkout, so that its inputs are known.
        (workflows / f"{number}.yml").write_text(text.replace("OWNER/pytest-pinet@main", "./"))
    done = subprocess.run([actionlint, "-no-color"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
