"""The draft of a mail about a slower kernel: its parts, and the runs that are no reason for one."""

from __future__ import annotations

import re
from dataclasses import replace
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

import pytest
from click.testing import CliRunner

from pytest_pinet.catalogue.maintainers import shipped_owners
from pytest_pinet.cli import pinet
from pytest_pinet.errors import ConfigError
from pytest_pinet.history.results_file import read_run
from pytest_pinet.model.record.change import BuildRecord
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.model.traffic import Direction, Traffic
from pytest_pinet.report.regression_mail import MailFacts, check_reportable, config_differences, draft
from pytest_pinet.traffic.iperf3_command import Iperf3Run, ProcessSide, client_command
from tests.support.change_session import GOOD, NEW, Bench, fresh_plans

A, B = "1" * 40, "2" * 40
TREE = "https://git.kernel.org/pub/scm/linux/kernel/git/torvalds/linux.git"
SENDER = "Jo Doe <jo@example.org>"
TEST = """
import pytest

@pytest.mark.pinet(board="pi4b")
def test_rate(link, gate):
    gate.tcp(link, direction="rx")
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> RunRecord:
    """Return a run in which B, of another commit than A, makes one NIC slower and one not."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(pytester.path / "gitconfig"))
    (pytester.path / "gitconfig").write_text("[user]\nname = Jo Doe\nemail = jo@example.org\n")
    bench = Bench(pytester)
    bench.plan("PLAN = Plan(ratio={'ax88179': 0.95})")
    for name, content, commit, option in (("good", GOOD, A, "250"), ("new", NEW, B, "1000")):
        (pytester.path / f"{name}.config").write_text(f"CONFIG_HZ={option}\nCONFIG_NET=y\n")
        source = f"source: {{tree: '{TREE}', branch: master, commit: '{commit}', config: {name}.config}}\n"
        (pytester.path / f"{name}.yaml").write_text(f"name: {name}\n{content}{source}")
    pytester.makepyfile(TEST)
    with fresh_plans(pytester.path):
        bench.run()
    return read_run(pytester.path / ".pinet/latest/results.json").replace(figures="measured")


def parsed(data: bytes) -> EmailMessage:
    return message_from_bytes(data, policy=default)


def test_the_mail_has_the_form_that_kernel_developers_expect(run: RunRecord) -> None:
    facts = MailFacts(shipped_owners()["bcmgenet"], SENDER, "net: make it slower", True, "", ["CONFIG_HZ: 250 -> 1000"])
    found = draft(run, facts)
    mail = parsed(found.data)
    assert re.fullmatch(r"\[REGRESSION\] net: .*-5\.\d% TCP rx on Raspberry Pi 4 Model B", mail["Subject"])
    assert "Doug Berger <opendmb@gmail.com>" in mail["To"]
    assert mail["Cc"] == "netdev@vger.kernel.org, regressions@lists.linux.dev"
    assert (mail["From"], mail["X-Unsent"], mail.get_content_type()) == (SENDER, "1", "text/plain")
    text = mail.get_content()
    assert text.startswith(f'commit: {B} ("net: make it slower")\n{TREE} master\n[Measure the newest mainline, too:')
    # The value of A, the change with its interval, the value of B.
    assert re.search(
        r"^  94\d\.\d Mbit/s \+- 0\.\d% +-5\.\d% \(-\d\.\d to -\d\.\d\) +89\d\.\d Mbit/s \+- 0\.\d%$", text, re.M
    )
    assert "pi4b:ax88179/pair/tcp-P1-rx, at the receiver" in text
    assert "1 other metric is not slower." in text
    assert "configuration: 1 option differs between A and B:\n  CONFIG_HZ: 250 -> 1000\n" in text
    assert "  iperf3 -c PEER -P 1 -t 10 -R\n" in text
    # regzbot reads its command in a paragraph of its own.
    assert f"\n\n#regzbot introduced: {B}\n\n" in text
    assert f"Reported-by: {SENDER}\nCloses: https://lore.kernel.org/r/{mail['Message-ID'][1:-1]}\n" in text
    assert found.places[0].endswith("still regression on linus/master SHA?]")
    assert found.places[1].startswith("[Name the practical use that became slower, and by how much.")
    assert max(len(line) for line in text.splitlines() if "https:" not in line) <= 80


def test_what_is_not_known_is_left_to_the_sender(run: RunRecord) -> None:
    assert run.change is not None
    unknown = BuildRecord(name="x", key="1", release=None, files=(), config=(), cmdline=(), options=(), sysctls=())
    bare = run.replace(change=run.change.replace(a=unknown, b=unknown))
    places = draft(bare, MailFacts()).places
    wanted = ("State the commit", "linus/master", "practical use", "State whether both", "Add the log", "such as v6.12")
    assert [any(word in place for place in places) for word in (*wanted, "your name")] == [True] * (len(wanted) + 1)


def test_the_range_is_of_commits_or_of_releases(run: RunRecord) -> None:
    assert run.change is not None
    assert f"#regzbot introduced: {A[:12]}..{B[:12]}\n" in parsed(draft(run, MailFacts()).data).get_content()
    a, b = (run.change.a.replace(source=None, release=one) for one in ("6.12.24", "6.12.25-pinet"))
    mail = parsed(draft(run.replace(change=run.change.replace(a=a, b=b)), MailFacts()).data)
    assert "#regzbot introduced: v6.12.24..v6.12.25\n" in mail.get_content()
    assert mail["Cc"].endswith("stable@vger.kernel.org")


def test_no_mail_is_drafted_without_a_reason(run: RunRecord) -> None:
    head = run.change
    assert head is not None
    assert head.b.source is not None
    pi = head.replace(b=head.b.replace(release="6.12.25-v8+"))
    dirty = head.replace(b=head.b.replace(source=replace(head.b.source, describe="v6.12-3-g2222222-dirty")))
    for other, message in (
        (
            run.replace(figures="emulated"),
            "emulated values, which are no reason to write to kernel developers; measure",
        ),
        (run.replace(change=None), "found no slower metric of a build, so there is nothing to report"),
        (run.replace(change=head.replace(verdict="pass")), "found no slower metric"),
        (run.replace(change=head.replace(baseline="accepted")), "other things than the kernel may have changed"),
        (run.replace(change=pi), "is built from raspberrypi/linux, whose regressions are reported as issues"),
        (run.replace(change=dirty), "has uncommitted changes (-dirty)"),
    ):
        with pytest.raises(ConfigError) as caught:
            check_reportable(other)
        assert message in str(caught.value)


def test_the_command_writes_the_draft_and_says_what_counts(run: RunRecord, pytester: pytest.Pytester) -> None:
    latest = pytester.path / ".pinet/latest/results.json"
    latest.write_text(latest.read_text().replace('"emulated"', '"measured"'))
    done = CliRunner().invoke(pinet, ["report", "--email"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "pinet sends nothing\nThe kernel's documentation counts slower code as a regression only if" in done.output
    assert "  to fill in: [Name the practical use that became slower" in done.output
    mail = parsed((pytester.path / "regression.eml").read_bytes())
    assert mail["From"] == SENDER
    # The configurations of both builds are in the run folder.
    assert "CONFIG_HZ: 250 -> 1000" in mail.get_content()
    with pytest.raises(ConfigError, match=r"--run and --tree belong to --email"):
        CliRunner().invoke(pinet, ["report", "--run", "x"], catch_exceptions=False)


def test_the_differences_of_two_configurations() -> None:
    a = 'CONFIG_HZ=250\nCONFIG_LOCALVERSION="-a"\n# CONFIG_BPF is not set\nCONFIG_NET=y\n'
    b = 'CONFIG_HZ=1000\nCONFIG_LOCALVERSION="-b"\nCONFIG_BPF=m\nCONFIG_NET=y\n'
    assert config_differences(a, b) == ["CONFIG_BPF: n -> m", "CONFIG_HZ: 250 -> 1000"]


@pytest.mark.parametrize(
    ("direction", "words"),
    [
        (Direction.RX, "  peer: iperf3 -s\n  board: iperf3 -c PEER -t 12 -R -P 4 -C cubic -w 65536\n"),
        (Direction.TX, "  board: iperf3 -s\n  peer: iperf3 -c BOARD -t 12 -R -P 4 -C cubic -w 65536\n"),
    ],
)
def test_the_recorded_commands_of_the_traffic_repeat_it(run: RunRecord, direction: Direction, words: str) -> None:
    """As iperf3 ran, without what only one lab and our own reports need."""
    assert run.change is not None
    ends = ProcessSide("192.0.2.1", at_end="cat /proc/stat"), ProcessSide("192.0.2.2")
    traffic = Traffic(direction, duration_s=10.0, warmup_s=2.0, streams=4, window=65536)
    client = client_command(Iperf3Run(traffic, 5201, *ends, congestion="cubic", source_port=4000))
    entries = [one.replace(direction=str(direction)) for one in run.change.entries]
    mail = draft(run.replace(change=run.change.replace(entries=entries)), MailFacts(client=client))
    assert f"To repeat, at full link speed:\n{words}" in parsed(mail.data).get_content()
