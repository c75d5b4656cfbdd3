"""The workflows that gate each pull request of a kernel tree, run step by step on a real git repository."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_pinet.report.comment import MARK
from pytest_pinet.tree.builder import COMMANDS
from tests.support.exact_records import records, run_of
from tests.support.forge import FOLDER, PINET, Api, Runner, api, commit, git, github, gitlab

GITHUB = ["exact-gate.yml", "exact-comment.yml"]
R8152 = {"drivers/net/usb/r8152.c": "int r8152;\n"}
# It would create a file if a script had its text, and be a mention or an image if a comment had it.
HOSTILE = "$(touch canary)`touch canary`;@team<img-src=x>"
NewRunner = Callable[..., Runner]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A kernel tree with pull request 7, which is one commit behind its base."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    commit(folder, {"drivers/net/usb/r8152.c": "int a;\n", "net/core/dev.c": "int b;\n", "LICENSES/MIT": "text\n"})
    git(folder, "branch", "pull")
    commit(folder, {"net/core/dev.c": "int c;\n"}, "of another person")
    return folder


def pull(repository: Path, files: dict[str, str]) -> str:
    """Make pull request 7 of these files, and return its newest commit."""
    git(repository, "checkout", "-q", "pull")
    head = commit(repository, files, HOSTILE)
    git(repository, "checkout", "-q", "-b", "merged", "main")
    git(repository, "merge", "-q", "--no-ff", "-m", "merge", "pull")
    git(repository, "update-ref", "refs/pull/7/merge", "HEAD")
    git(repository, "checkout", "-q", "main")
    return head


@pytest.fixture
def runner(tmp_path: Path, repository: Path) -> NewRunner:
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()

    def new(pinet: Path = PINET, **environment: str) -> Runner:
        number = len(list(tmp_path.glob("runner-*")))
        return Runner(tmp_path / f"runner-{number}", artifacts, repository, pinet, environment)

    return new


@pytest.fixture
def recorded_gate(tmp_path: Path) -> Path:
    """A pinet whose gate copies a recorded run in which the driver is slower. All other commands are the real ones."""
    results = tmp_path / "results.json"
    results.write_text(json.dumps(run_of(records("slow"), "slow").dump()))
    program = tmp_path / "pinet"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = gate ] || exec {PINET} "$@"\nprintf "%s\\n" "$@" > {tmp_path}/gate.words\n'
        f"git -C $3 diff --name-only $5 $7 > {tmp_path}/gate.changed || exit 4\n"
        f"mkdir -p .pinet/latest && cp {results} .pinet/latest/ && exit 1\n"
    )
    program.chmod(0o755)
    return program


def test_github_gates_the_boards_of_the_changed_files(runner: NewRunner, repository: Path) -> None:
    pull(repository, R8152)
    assert github(runner(), "exact-gate.yml", "boards", {}) == (0, {"boards": '["r8152", "r8156"]'})


def test_github_gates_nothing_if_no_board_executes_a_file(runner: NewRunner, repository: Path) -> None:
    pull(repository, {"Documentation/x.rst": "text\n", "drivers/gpu/x.c": "int a;\n"})
    status, outputs = github(runner(), "exact-gate.yml", "boards", {})
    jobs = yaml.safe_load((FOLDER / "exact-gate.yml").read_text())["jobs"]

    assert (status, outputs["boards"]) == (0, "[]")
    assert jobs["gate"]["if"] == "needs.boards.outputs.boards != '[]'"


def test_github_keeps_the_answer_of_a_gate_that_found_a_slower_driver(
    runner: NewRunner, repository: Path, recorded_gate: Path, tmp_path: Path
) -> None:
    """The gate compares the merged tree with its base, so that other commits of the base play no part."""
    pull(repository, R8152)
    job = runner(recorded_gate)

    status, _ = github(job, "exact-gate.yml", "gate", {"matrix.board": "r8152"})

    words = (tmp_path / "gate.words").read_text().split()
    assert words == f"gate --tree {job.work} --good HEAD^1 --bad HEAD --exact --nic r8152".split()
    assert (tmp_path / "gate.changed").read_text().split() == list(R8152)
    assert status == 1
    assert {path.name for path in (job.artifacts / "r8152").iterdir()} == {"results.json", "status"}
    assert "must not be merged" in (job.folder / "summary").read_text()


def of_github(api_url: str, head: str) -> dict[str, str]:
    """Return the expressions of the comment's workflow."""
    return {
        "github.event.workflow_run.id": "99",
        "github.event.workflow_run.head_sha": head,
        "github.event.workflow_run.head_repository.owner.login": "person",
        "github.event.workflow_run.head_branch": HOSTILE,
        "github.event.workflow_run.html_url": "https://github.com/o/linux/actions/runs/99",
        "github.token": "secret",
    }


def comment(runner: NewRunner, head: str, comments: list[dict[str, Any]], pulls: list[dict[str, Any]]) -> Api:
    """Run the job that comments, and return its requests."""
    own = {"/repos/o/linux/pulls": pulls, "/repos/o/linux/issues/7/comments": comments}
    with api(own) as forge:
        job = runner(GITHUB_API_URL=forge.url, GITHUB_REPOSITORY="o/linux")
        status, _ = github(job, "exact-comment.yml", "comment", of_github(forge.url, head))
    assert status == 0, job.log
    assert not list(job.folder.rglob("canary"))
    return forge


def answer(folder: Path, name: str, text: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "results.json").write_text(text)


def test_github_comments_on_the_pull_request_of_the_event(runner: NewRunner, tmp_path: Path) -> None:
    head = "1" * 40
    answer(tmp_path / "artifacts", "macb", json.dumps(run_of(records("slow"), "slow").dump()))
    # An artifact cannot choose the pull request.
    (tmp_path / "artifacts/macb/number").write_text("1")

    forge = comment(runner, head, [], [{"number": 3, "head": {"sha": "2" * 40}}, {"number": 7, "head": {"sha": head}}])

    ((_, query), _) = forge.read
    assert query == {"state": "open", "head": f"person:{HOSTILE}"}
    ((method, path, body),) = forge.sent
    assert (method, path) == ("POST", "/repos/o/linux/issues/7/comments")
    first, line, *_ = body["body"].splitlines()
    assert first == MARK
    assert line.startswith("- \u274c **macb**: slow must not be merged: 1 of 2 metrics slower")
    assert "| gem\\_rx \\[macb\\] | frame-60-rx | 151.00 | 631.00 |" in body["body"]


def test_github_replaces_its_own_comment_and_no_other(runner: NewRunner, tmp_path: Path) -> None:
    head = "1" * 40
    comments = [
        {"id": 5, "user": {"login": "person"}, "body": f"{MARK} of a person"},
        {"id": 6, "user": {"login": "github-actions[bot]"}, "body": "of another workflow"},
        {"id": 8, "user": {"login": "github-actions[bot]"}, "body": f"{MARK}\nold"},
    ]
    forge = comment(runner, head, comments, [{"number": 7, "head": {"sha": head}}])

    ((method, path, body),) = forge.sent
    assert (method, path) == ("PATCH", "/repos/o/linux/issues/comments/8")
    assert "No board has an answer" in body["body"]


def test_github_writes_no_comment_without_an_answer_or_for_an_older_commit(runner: NewRunner, tmp_path: Path) -> None:
    head = "1" * 40
    assert comment(runner, head, [], [{"number": 7, "head": {"sha": head}}]).sent == []
    answer(tmp_path / "artifacts", "macb", json.dumps(run_of(records("slow"), "slow").dump()))
    assert comment(runner, head, [], [{"number": 7, "head": {"sha": "2" * 40}}]).sent == []


def test_github_reads_no_more_of_an_artifact_than_a_small_regular_results_file(
    runner: NewRunner, tmp_path: Path
) -> None:
    head, artifacts = "1" * 40, tmp_path / "artifacts"
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(run_of(records("slow"), "secret").dump()))
    answer(artifacts, HOSTILE, "no JSON")
    answer(artifacts, "large", " " * (9 << 20))
    (artifacts / "linked").mkdir()
    (artifacts / "linked/results.json").symlink_to(secret)

    forge = comment(runner, head, [], [{"number": 7, "head": {"sha": head}}])

    ((_, _, body),) = forge.sent
    lines = [line for line in body["body"].splitlines() if line.startswith("- ")]
    assert len(lines) == 3
    assert all(": no answer: " in line for line in lines), lines
    assert "secret" not in body["body"]


def test_the_job_that_comments_has_no_other_rights_and_uses_nothing_of_the_pull_request() -> None:
    gate, says = (yaml.safe_load((FOLDER / name).read_text()) for name in GITHUB)

    assert gate["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in gate["jobs"].values())
    assert "secrets." not in (FOLDER / "exact-gate.yml").read_text()
    assert says["permissions"] == {}
    assert says["jobs"]["comment"]["permissions"] == {"actions": "read", "pull-requests": "write"}
    used = [step["uses"].partition("@")[0] for step in says["jobs"]["comment"]["steps"] if "uses" in step]
    assert used == ["actions/download-artifact"]
    # The key `on` is the boolean of YAML 1.1.
    assert says[True]["workflow_run"]["workflows"] == [gate["name"]]


def test_gitlab_gates_the_boards_of_the_changed_files_in_a_pipeline_of_its_own(
    runner: NewRunner, repository: Path, recorded_gate: Path, tmp_path: Path
) -> None:
    base = git(repository, "rev-parse", "pull")
    head = pull(repository, R8152)

    def cloned(pinet: Path) -> Runner:
        job = runner(pinet)
        git(job.work, "clone", "-q", "--depth=1", "--branch=pull", f"file://{repository}", ".")
        return job

    first = cloned(PINET)
    assert gitlab(first, "exact-boards", {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base}) == 0, first.log
    child = yaml.safe_load((tmp_path / "artifacts/exact-boards.yml").read_text())
    assert child["include"] == [{"local": "/.gitlab/exact.yml"}]
    assert child["exact"]["parallel"] == {"matrix": [{"BOARD": ["r8152", "r8156"]}]}

    job = cloned(recorded_gate)
    assert gitlab(job, child["exact"]["extends"], {**child["exact"]["variables"], "BOARD": "r8152"}) == 1, job.log
    words = (tmp_path / "gate.words").read_text().split()
    assert words == f"gate --tree {job.work} --good {base} --bad HEAD --exact --nic r8152".split()
    assert git(job.work, "rev-parse", "HEAD") == head
    assert (tmp_path / "artifacts/results.json").is_file()


def test_gitlab_has_a_pipeline_without_a_gate_if_no_board_executes_a_file(
    runner: NewRunner, repository: Path, tmp_path: Path
) -> None:
    base = git(repository, "rev-parse", "pull")
    pull(repository, {"Documentation/x.rst": "text\n"})
    job = runner()
    git(job.work, "clone", "-q", "--depth=1", "--branch=pull", f"file://{repository}", ".")

    assert gitlab(job, "exact-boards", {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base}) == 0, job.log
    assert list(yaml.safe_load((tmp_path / "artifacts/exact-boards.yml").read_text())) == ["nothing-to-gate"]


def test_gitlab_comments_on_each_open_request_from_its_newest_pipeline(runner: NewRunner) -> None:
    run = json.dumps(run_of(records("slow"), "slow").dump()).encode()
    head, request = "1" * 40, "/projects/1/merge_requests/7"
    done = {"status": "failed", "web_url": "https://gitlab.example.org/fork/-/pipelines/20", "project_id": 2}
    jobs = [
        {"id": 31, "name": "exact: [macb]"},
        {"id": 32, "name": "exact: [genet]"},
        {"id": 33, "name": f"exact: [{HOSTILE}]"},
        {"id": 34, "name": "build"},
    ]
    answers: dict[str, Any] = {
        "/user": {"id": 4},
        "/projects/1/merge_requests": [{"iid": 7, "sha": head}, {"iid": 8, "sha": "3" * 40}],
        f"{request}/pipelines": [{"id": 19, "sha": "2" * 40, **done}, {"id": 20, "sha": head, **done}],
        "/projects/1/merge_requests/8/pipelines": [{"id": 21, "sha": "3" * 40, **done, "status": "running"}],
        "/projects/2/pipelines/20/bridges": [{"downstream_pipeline": {"id": 22}}],
        "/projects/2/pipelines/22/jobs": jobs,
        "/projects/2/jobs/31/artifacts/answer/results.json": run,
        f"{request}/notes": [],
    }
    variables = {"CI_PROJECT_ID": "1", "PINET_TOKEN": "secret"}

    with api(answers) as forge:
        job = runner()
        assert gitlab(job, "exact-comment", {**variables, "CI_API_V4_URL": forge.url}) == 0, job.log
        ((method, path, body),) = forge.sent
        assert (method, path) == ("POST", f"{request}/notes")
        assert not list(job.folder.rglob("canary"))
        boards = [line.partition(":")[0] for line in body["body"].splitlines() if line.startswith("- ")]
        assert boards == ["- \u2753 **genet**", "- \u274c **macb**"]

        # An equal note stays as it is, and another one is replaced.
        for text, methods in ((body["body"].rstrip("\n"), []), (f"{MARK}\nold", ["PUT"])):
            answers[f"{request}/notes"] = [{"id": 5, "author": {"id": 4}, "body": text}]
            forge.sent.clear()
            job = runner()
            assert gitlab(job, "exact-comment", {**variables, "CI_API_V4_URL": forge.url}) == 0, job.log
            assert [sent[0] for sent in forge.sent] == methods


def test_the_token_of_gitlab_is_only_for_the_schedule_of_a_protected_branch() -> None:
    jobs = yaml.safe_load((FOLDER / "gitlab-exact.yml").read_text())
    using = [name for name, job in jobs.items() if "PINET_TOKEN" in json.dumps(job)]

    assert using == ["exact-comment"]
    (rule,) = jobs["exact-comment"]["rules"]
    assert rule["if"] == '$CI_PIPELINE_SOURCE == "schedule" && $CI_COMMIT_REF_PROTECTED == "true"'
    assert jobs["exact-comment"]["variables"]["GIT_STRATEGY"] == "none"


@pytest.mark.parametrize(
    ("name", "schema"),
    [*((name, "vendor.github-workflows") for name in GITHUB), ("gitlab-exact.yml", "vendor.gitlab-ci")],
)
def test_each_workflow_follows_its_schema(name: str, schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(FOLDER / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_zizmor_finds_no_weakness_in_the_workflows(tmp_path: Path) -> None:
    workflows = tmp_path / ".github/workflows"
    workflows.mkdir(parents=True)
    for name in GITHUB:
        shutil.copy(FOLDER / name, workflows)
    command = [str(PINET.with_name("zizmor")), "--offline", "--no-progress", "--color=never", str(workflows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["exact-gate.yml", "gitlab-exact.yml"])
def test_each_workflow_installs_what_a_build_of_the_kernel_needs(name: str) -> None:
    needed = {line.split()[1] for line in COMMANDS.read_text().splitlines()}
    # The images and packages of both forges have these three.
    missing = needed - {"git", "perl", "util-linux"} - set((FOLDER / name).read_text().split())

    assert missing == set()
