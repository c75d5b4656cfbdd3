"""The step-by-step CI examples run as their services run them: in a clean clone, with their shells and variables.

The workflow of the page, the action (action.yml) and the component (templates/gate.yml) are executed step by step. The
kernel tree is a stand-in whose ``make`` copies files of a build. pytest, gate, merge and reports are real. The boards
are simulated.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from pytest_pinet.history.store import HistoryStore
from pytest_pinet.model.verdict import GATE
from tests.support import build_files
from tests.support.change_session import LAB_FILE, Bench, bench_with
from tests.support.console_blocks import DOCS, ROOT
from tests.support.half_year_history import half_year, write
from tests.support.history_records import day, kept
from tests.support.inner_run import WITHOUT_HYPOTHESIS

HOW_TO = DOCS / "how-to"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
COMPONENT = (ROOT / "templates" / "gate.yml").read_text(encoding="utf-8")
KNOWN_GOOD = "/srv/known-good"
NUMBER = "7"
JOB_URL = "https://gitlab.example/group/linux/-/jobs/7"
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


def recipe(page: str, heading: str) -> Any:
    """Return the YAML below a heading of a page."""
    text = (HOW_TO / page).read_text(encoding="utf-8")
    found = re.search(rf"^## {heading}$.*?```yaml\n(.*?)```", text, re.M | re.S)
    assert found is not None
    # YAML 1.1 reads the key `on` as true.
    return yaml.safe_load(re.sub(r"^on:", "'on':", found[1]))


def github() -> Any:
    return recipe("ci-github.md", "2. Gate each pull request")["jobs"]["throughput"]


def gitlab() -> Any:
    return recipe("ci-gitlab.md", "2. Gate each merge request")


def component(inputs: Mapping[str, str]) -> Any:
    """Return the jobs of the component with these inputs, as GitLab writes them into its text."""
    spec, jobs = (part for part in re.split(r"^---$", COMPONENT, flags=re.M))
    known = yaml.safe_load(spec)["spec"]["inputs"]
    assert inputs.keys() <= known.keys()
    # It is installed already.
    values = {name: {"install": "true", **inputs}.get(name, one.get("default")) for name, one in known.items()}
    assert None not in values.values()
    return yaml.safe_load(re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda match: values[match[1]], jobs))


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
        self.log = ""

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
            # Simulated boards send TCP, and no pings.
            "PYTEST_ADDOPTS": f"{WITHOUT_HYPOTHESIS} -p no:cacheprovider -k test_line_rate",
            "GITHUB_STEP_SUMMARY": str(self.folder / "step.md"),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "CI_PIPELINE_IID": NUMBER,
            "CI_JOB_URL": JOB_URL,
        }
        history = environment.get("PINET_HISTORY", "off")
        environment["PINET_HISTORY"] = history.replace("/srv/pinet", str(self.folder / "pinet"))
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
        self.log = f"{self.log}{done.stdout}"
        return done.returncode

    def github(self) -> int:
        """Run the job. Return the exit code of the first step that fails; later steps run only with ``always()``."""
        job = github()
        variables = {name: text.replace("${{ github.run_number }}", NUMBER) for name, text in job["env"].items()}
        result = 0
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                self.clone()
            elif step.get("uses", "").startswith("OWNER/pytest-pinet@") and not result:
                result = self.action(step["with"], variables)
            elif "run" in step and not result:
                result = self.shell(step["run"], variables, "bash", "-e")
        return result

    def action(self, given: Mapping[str, str], variables: Mapping[str, object]) -> int:
        """Run the steps of the action, as GitHub runs the steps of a composite action. It is installed already."""
        assert given.keys() <= ACTION["inputs"].keys()
        inputs = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | dict(given)
        inputs["install"] = "false"
        output = self.folder / "output"
        output.write_text("")
        result = 0
        for step in ACTION["runs"]["steps"]:
            condition = step.get("if", "success()")
            if "inputs.install" in condition or "uses" in step or (result and "always()" not in condition):
                continue
            outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())

            def value(match: re.Match[str], outputs: Mapping[str, str] = outputs) -> str:
                kind, name = match[1], match[2]
                return inputs[name] if kind == "inputs" else outputs[name]

            known = {
                name: re.sub(r"\$\{\{ (inputs|steps\.gate\.outputs)\.(\w+) \}\}", value, str(text)).replace(
                    KNOWN_GOOD, str(self.folder / "known")
                )
                for name, text in step.get("env", {}).items()
            }
            assert "${{" not in "".join([step["run"], *known.values()])
            code = self.shell(
                step["run"], {**variables, **known}, "bash", "--noprofile", "--norc", "-e", "-o", "pipefail"
            )
            result = result or code
        return result

    def gitlab(self) -> int:
        """Run both jobs. The lines of each are one script; the shell of ``after_script`` is another."""
        page = gitlab()
        self.clone()
        if code := self.gitlab_job(page["build"], **page["variables"]):
            return code
        return self.gitlab_job(component(page["include"][0]["inputs"])["throughput"], **page["variables"])

    def gitlab_job(self, job: Mapping[str, Any], **variables: object) -> int:
        """Run a job in the present clone. The lines of its script are one script; ``after_script`` is another."""
        known = {**job.get("variables", {}), **variables}
        shell = ("bash", "-e", "-o", "pipefail")
        result = self.shell("\n".join(job["script"]), known, *shell)
        if "after_script" in job:
            self.shell("\n".join(job["after_script"]), known, *shell)
        return result

    def gated(self) -> list[str]:
        """Return the answers of all gates that the history outside the clone has."""
        assert not (self.work / ".pinet" / "history.db").exists()
        with HistoryStore.open(str(self.folder / "pinet" / "history.db")) as store:
            return [GATE[one.change.verdict].change for one in store.gates() if one.change is not None]

    def kept(self, paths: Sequence[str], into: Path) -> None:
        """Copy artifacts of the present clone as GitLab's runner does: a symbolic link stays one."""
        into.mkdir(exist_ok=True)
        for path in paths:
            one = self.work / path
            if one.is_symlink():
                (into / path).parent.mkdir(parents=True, exist_ok=True)
                (into / path).symlink_to(one.readlink())
            elif one.is_file():
                shutil.copy(one, into)
            elif one.exists():
                shutil.copytree(one, into / path, symlinks=True, dirs_exist_ok=True)


@pytest.fixture
def runner(pytester: pytest.Pytester) -> Iterator[Runner]:
    with bench_with(pytester, "") as bench:
        yield Runner(bench)


def test_github_passes_a_change_that_is_not_slower(runner: Runner) -> None:
    assert runner.github() == 0
    assert "may be merged" in (runner.folder / "step.md").read_text()
    assert "::error" not in runner.log
    (upload,) = (one for one in ACTION["runs"]["steps"] if one.get("uses", "").startswith("actions/upload-artifact@"))
    for path in upload["with"]["path"].split():
        assert (runner.work / path).exists(), path
    assert runner.gated() == ["pass"]


def test_github_refuses_a_slower_change_and_says_so(runner: Runner) -> None:
    runner.bench.plan(SLOWER)
    assert runner.github() == 1
    assert "must not be merged" in (runner.folder / "step.md").read_text()
    assert "\n::error title=pi4b.onboard.pair.tcp-P1-" in runner.log
    assert runner.gated() == ["regression"]


def links_of(page: Path) -> list[str]:
    """Return the relative links of a page without their fragments."""
    return [link for link in re.findall(r'href="([^"#:]+)"', page.read_text(encoding="utf-8")) if link]


def test_each_link_of_the_page_leads_to_a_file_of_the_same_artifact(runner: Runner) -> None:
    """The page of a gate after three measurements, with trends and the gate."""
    runner.clone()
    measured = half_year(runs=3)
    write(measured, runner.work / ".pinet")
    variables = {"PINET_HISTORY": ".pinet/history.db"}
    given = {"build": str(runner.folder / "known" / "build"), "against": f"{KNOWN_GOOD}/build"}
    assert runner.action(given, variables) == 0
    (upload,) = (one for one in ACTION["runs"]["steps"] if one.get("uses", "").startswith("actions/upload-artifact@"))
    folders = [path for path in upload["with"]["path"].split() if path.endswith("/")]
    links = links_of(runner.work / "pinet-report.html")
    gate = (runner.work / ".pinet" / "latest").resolve().name
    assert {link.split("/")[2] for link in links} == {gate, *(one.run for one in measured[1:])}
    for link in links:
        assert any(link.startswith(folder) for folder in folders), link
        assert (runner.work / link).exists(), link


def test_gitlab_refuses_a_slower_change_and_shows_its_tests(runner: Runner) -> None:
    runner.bench.plan(SLOWER)
    assert runner.gitlab() == 1
    assert "must not be merged" in runner.said
    artifacts = component(gitlab()["include"][0]["inputs"])["throughput"]["artifacts"]
    cases = ElementTree.parse(runner.work / artifacts["reports"]["junit"]).iter("testcase")
    assert any(case.find("failure") is not None for case in cases)
    (links,) = json.loads((runner.work / artifacts["reports"]["annotations"]).read_text()).values()
    assert "must not be merged" in links[0]["external_link"]["label"]
    assert links[1]["external_link"]["label"].startswith("fail: pi4b.onboard.pair.tcp-P1-")
    assert {one["external_link"]["url"] for one in links} == {f"{JOB_URL}/artifacts/file/pinet-report.html"}
    runner.kept([path for path in artifacts["paths"] if path.startswith(".pinet")], runner.folder / "kept")
    assert (runner.folder / "kept" / ".pinet" / "latest" / "results.json").is_file()
    links = links_of(runner.work / "pinet-report.html")
    assert links
    assert all((runner.folder / "kept" / link).is_file() for link in links)
    assert runner.gated() == ["regression"]


@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_a_change_that_does_not_compile_fails_and_is_no_broken_lab(runner: Runner, service: str) -> None:
    (runner.folder / "linux" / "made" / "Image").unlink()
    git(runner.folder / "linux", "commit", "-qam", "does not compile")
    code = {"github": runner.github, "gitlab": runner.gitlab}[service]()
    # GitHub knows no exit code that is only a warning.
    job = component(gitlab()["include"][0]["inputs"])["throughput"]
    assert code not in (0, *(job["allow_failure"]["exit_codes"] if service == "gitlab" else []))
    assert not (runner.work / "junit.xml").exists()


def test_shards_of_two_boards_are_merged(runner: Runner) -> None:
    """The jobs of boards.yml, one after the other in the places where their artifacts go."""
    jobs = recipe("ci-github.md", "4. Several boards at once")["jobs"]
    runner.bench.plan(SLOWER)
    runner.clone()
    codes = {}
    for one in planned(runner, jobs["plan"]):
        assert one["runner"] == ["self-hosted", "network-lab"]
        board = one["board"]
        clean, step = jobs["board"]["steps"]
        assert runner.shell(clean["run"], jobs["board"]["env"], "bash", "-e") == 0
        assert not (runner.work / ".pinet" / "runs").exists()
        given = {
            name: text.replace("${{ matrix.board }}", board).replace("${{ strategy.job-total }}", "2")
            for name, text in step["with"].items()
        }
        given["build"] = str(runner.folder / "known" / "build")
        codes[board] = runner.action(given, jobs["board"]["env"])
        kept = runner.folder / "shards" / given["artifact"] / ".pinet" / "latest"
        shutil.copytree(runner.work / ".pinet" / "latest", kept)
    clean, _, merge = jobs["throughput"]["steps"]
    assert runner.shell(clean["run"], jobs["throughput"]["env"], "bash", "-e") == 0
    shutil.move(runner.folder / "shards", runner.work)
    code = runner.action(merge["with"], jobs["throughput"]["env"])
    assert code == max(codes.values())
    assert "pi4b:onboard" in runner.log
    assert codes.keys() == {"pi4b", "cm4"}
    assert len(list((runner.work / ".pinet" / "latest").glob("results.json"))) == 1
    assert runner.gated() == ["regression"]


def planned(runner: Runner, plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Run the job ``plan`` of boards.yml, and return the jobs that ``fromJSON`` makes of its output."""
    (step,) = plan["steps"]
    assert plan["outputs"] == {"matrix": f"${{{{ steps.{step['id']}.outputs.matrix }}}}"}
    output = runner.folder / "output"
    output.write_text("")
    script = step["run"].replace("/etc/network-lab/bench.yaml", str(runner.folder / "lab.yaml"))
    assert runner.shell(script, {}, "bash", "-e") == 0
    (line,) = output.read_text().splitlines()
    found: list[dict[str, Any]] = json.loads(line.removeprefix("matrix="))["include"]
    return found


def test_parallel_jobs_of_gitlab_are_merged(runner: Runner) -> None:
    """The jobs of the page, each in a clone of its own with the artifacts of the jobs that it needs."""
    page = recipe("ci-gitlab.md", "4. Several boards at once")
    shard, merged = (one["inputs"] for one in page["include"])
    inputs = shard | {"build": str(runner.folder / "known" / "build")}
    runner.bench.plan(SLOWER)
    board = component(inputs)["board"] | page["board"]
    (matrix,) = board["parallel"]["matrix"]
    runner.clone()
    assert runner.shell(f"pinet matrix --lab {runner.folder}/lab.yaml --format gitlab", {}, "bash") == 0
    # The order is that of the lab.
    assert sorted(json.loads(runner.said)[0]["BOARD"]) == sorted(matrix["BOARD"])
    assert board["allow_failure"] is True
    codes = []
    for name in matrix["BOARD"]:
        variables = {"BOARD": name, "RUNNER": matrix["RUNNER"][0], "CI_NODE_TOTAL": 2}
        codes.append(runner.gitlab_job(board, **page["variables"], **variables))
        runner.kept(board["artifacts"]["paths"], runner.folder / "kept")
        shutil.rmtree(runner.work)
        runner.clone()
    assert 1 in codes
    assert {path.name for path in (runner.folder / "kept" / "shards").iterdir()} == {"pi4b", "cm4"}
    shutil.copytree(runner.folder / "kept", runner.work, dirs_exist_ok=True)
    throughput = component(merged)["throughput"] | page["throughput"]
    assert throughput["needs"] == ["board"]
    assert runner.gitlab_job(throughput, **page["variables"]) == max(codes)
    assert "pi4b:onboard" in runner.said
    assert runner.gated() == ["regression"]
    runner.kept(throughput["artifacts"]["paths"], runner.folder / "merged")
    assert (runner.folder / "merged" / ".pinet" / "latest" / "results.json").is_file()


def nightly(service: str) -> list[tuple[str, bool]]:
    """Return the scripts of the nightly job, and whether each also runs after a failure."""
    found = recipe(f"ci-{service}.md", "5. Each night")
    if service == "gitlab":
        return [("\n".join(found["nightly"]["script"]), False)]
    return [(step["run"], "always()" in step.get("if", "")) for step in found["jobs"]["nightly"]["steps"]]


@pytest.mark.parametrize("service", ["github", "gitlab"])
@pytest.mark.parametrize(("skipped", "lost"), [(0, False), (0, True), (1, False), (1, True)])
def test_a_nightly_job_fails_while_a_loss_is_open_or_if_nothing_is_measured(
    service: str, skipped: int, lost: bool, tmp_path: Path
) -> None:
    """Only pytest is a stand-in: the history has the runs of 40 nights.

    If it skips every test, it fails only with ``--pinet-require 1``.
    """
    (tmp_path / "lab.yaml").write_text(LAB_FILE.replace("pinet:\n", "pinet:\n  name: virtual\n"))
    with HistoryStore.open(str(tmp_path / "history.db"), create=True) as store:
        store.add_all(kept([day(n, 890 if lost and n >= 20 else 940) for n in range(40)]))
    require = 'case " $* " in *" --pinet-require 1 "*)'
    (tmp_path / "pytest").write_text(f"#!/bin/sh\n{require} exit {skipped};; esac\n")
    (tmp_path / "pytest").chmod(0o755)
    environment = {
        **os.environ, "PATH": f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT),
        "PINET_LAB": "lab.yaml", "PINET_HISTORY": "history.db",
    }  # fmt: skip
    result, said = 0, ""
    for script, always in nightly(service):
        if result and not always:
            continue
        command = ["bash", "-e", *(["-o", "pipefail"] if service == "gitlab" else []), "-c", script]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        result, said = result or done.returncode, said + done.stdout
    assert result == (skipped or int(lost)), said
    assert ("1 loss is open" if lost else "no loss is open") in said


@pytest.mark.parametrize(
    ("code", "warns", "expected"), [(0, True, 0), (2, True, 0), (3, True, 0), (1, True, 1), (2, False, 2)]
)
def test_the_action_only_warns_if_that_is_wanted(code: int, warns: bool, expected: int, tmp_path: Path) -> None:
    (step,) = (one for one in ACTION["runs"]["steps"] if one["name"] == "Decide")
    environment = {"STATUS": str(code), "UNDECIDED": "warn" if warns else "fail", "PATH": "/usr/bin:/bin"}
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == expected
    assert ("::warning" in done.stdout) == (expected == 0 and code != 0)


def test_the_action_installs_itself(tmp_path: Path) -> None:
    (step,) = (one for one in ACTION["runs"]["steps"] if one["name"] == "Install pytest-pinet")
    pip = tmp_path / "pinet" / "bin" / "pip"
    stub = (
        f'#!/bin/sh\nmkdir -p {pip.parent}\nprintf "#!/bin/sh\necho \\$@ > {tmp_path}/said" > {pip}\nchmod +x {pip}\n'
    )
    (tmp_path / "python3").write_text(stub)
    (tmp_path / "python3").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin", "RUNNER_TEMP": str(tmp_path), "GITHUB_PATH": str(tmp_path / "path"),
        "GITHUB_ACTION_PATH": "/actions/pytest-pinet",
    }  # fmt: skip
    subprocess.run(["bash", "-e", "-o", "pipefail", "-c", step["run"]], env=environment, check=True)
    assert (tmp_path / "said").read_text().split()[-1] == "/actions/pytest-pinet[snmp]"
    assert (tmp_path / "path").read_text().strip() == str(pip.parent)


@pytest.mark.parametrize("lab", ["", "desk.yaml"])
@pytest.mark.parametrize("merge", ["", "shards/*"])
def test_all_commands_of_the_action_have_the_lab_file_that_it_was_given(lab: str, merge: str, tmp_path: Path) -> None:
    """Without the input, they have that of the runner."""
    (tmp_path / "pinet").write_text(f'#!/bin/sh\necho "$PINET_LAB $1" >> {tmp_path}/calls\n')
    (tmp_path / "pinet").chmod(0o755)
    (tmp_path / ".pinet" / "latest").mkdir(parents=True)
    (tmp_path / ".pinet" / "latest" / "results.json").write_text("{}")
    inputs = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | {"lab": lab, "merge": merge}
    for step in ACTION["runs"]["steps"]:
        if step["name"] in ("Gate or merge", "Summary, annotations and report"):
            own = {name: inputs[re.sub(r"\W|inputs", "", text)] for name, text in step.get("env", {}).items()}
            environment = {
                "PATH": f"{tmp_path}:/usr/bin:/bin", "PINET_LAB": "bench.yaml", "GITHUB_OUTPUT": "/dev/null",
                "GITHUB_STEP_SUMMARY": "/dev/null",
            }  # fmt: skip
            script = step["run"].replace("rm -f .pinet/latest", "rm -f")
            command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script]
            subprocess.run(command, cwd=tmp_path, env=environment | own, check=True)
    commands = ["merge" if merge else "gate", "summary", "export", "report"]
    assert (tmp_path / "calls").read_text().splitlines() == [f"{lab or 'bench.yaml'} {one}" for one in commands]


def test_the_component_installs_itself(tmp_path: Path) -> None:
    """From the project pytest-pinet in the group of the kernel. Its commands are found, also in ``after_script``."""
    command = yaml.safe_load(COMPONENT.partition("\n---\n")[0])["spec"]["inputs"]["install"]["default"]
    job = component({"lab": "bench.yaml", "install": command})["throughput"]
    pip = tmp_path / ".pinet-venv" / "bin" / "pip"
    stub = f"""#!/bin/sh
mkdir -p {pip.parent} .pinet/latest
touch .pinet/latest/results.json
printf '#!/bin/sh\necho "$@" > {tmp_path}/said' > {pip}
printf '#!/bin/sh\necho $1 >> {tmp_path}/calls' > {pip.parent}/pinet
chmod +x {pip} {pip.parent}/pinet
"""
    (tmp_path / "python3").write_text(stub)
    (tmp_path / "python3").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin", "CI_SERVER_FQDN": "gitlab.example", "CI_PROJECT_NAMESPACE": "kernel",
        "CI_JOB_TOKEN": "t", "CI_JOB_URL": JOB_URL,
    }  # fmt: skip
    for lines in (job["script"], job["after_script"]):
        script = "\n".join(lines).replace("rm -f .pinet/latest", "rm -f")
        subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=tmp_path, env=environment, check=True)
    where = "git+https://gitlab-ci-token:t@gitlab.example/kernel/pytest-pinet.git"
    assert (tmp_path / "said").read_text().endswith(f" pytest-pinet[snmp] @ {where}\n")
    assert (tmp_path / "calls").read_text().split() == ["gate", "export", "report", "summary"]


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (1, 1), (2, 0), (3, 0), (4, 4)])
def test_the_script_that_only_warns(code: int, expected: int, tmp_path: Path) -> None:
    found = re.search(r"```bash\n(.*?)```", (HOW_TO / "ci.md").read_text(encoding="utf-8"), re.S)
    assert found is not None
    (tmp_path / "pinet").write_text(f"#!/bin/sh\nexit {code}\n")
    (tmp_path / "pinet").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-e", "-c", found[1]], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == expected
    assert ("::warning::" in done.stdout) == (code in (2, 3))
