"""Drafts the mail that reports a slower kernel, in the form that kernel developers and their regression tracker expect.

Documentation/admin-guide/reporting-regressions.rst and the mails of the kernel test robot define this form.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import make_msgid, parseaddr

from pytest_pinet.catalogue import load
from pytest_pinet.catalogue.maintainers import Owner
from pytest_pinet.errors import ConfigError
from pytest_pinet.history.points import changed_value
from pytest_pinet.judge.costs import JUDGED, shown_cost
from pytest_pinet.model.record.change import BuildRecord, ChangeEntryRecord, ChangeHeadRecord
from pytest_pinet.model.record.result import ResultRecord, RunRecord
from pytest_pinet.model.verdict import GOOD, Verdict
from pytest_pinet.report.change_table import kernel_words
from pytest_pinet.report.text_wrap import count, rate

# Documentation/admin-guide/reporting-regressions.rst of Linux 6.12.
COUNTS = (
    "The kernel's documentation counts slower code as a regression only if the difference is significant: a slow-down "
    "of five percent in a micro-benchmark is unlikely to qualify, unless it also influences the results of a broad "
    "benchmark by more than one percent. Both kernels must have a similar configuration."
)
NETDEV, REGRESSIONS, STABLE = "netdev@vger.kernel.org", "regressions@lists.linux.dev", "stable@vger.kernel.org"
_MOST = 10
_WIDTH, _WIDE = 23, 26
# raspberrypi/linux names its kernels 6.12.25-v8+, or 6.12.25+rpt-rpi-v8 in packages.
_PI_RELEASE = re.compile(r"-v[678]l?(?:-16k)?\+?$|rpt-rpi")
_PI_ISSUES = "https://github.com/raspberrypi/linux/issues"
_STABLE_RELEASE = re.compile(r"\d+\.\d+\.[1-9]\d*")
_TRAFFIC = re.compile(r"(?P<kind>tcp|udp|http)-P(?P<streams>\d+)")
# The kernel test robot writes here: [still regression on linus/master SHA].
_NEWEST = "[Measure the newest mainline, too: still regression on linus/master SHA?]"
_CLIENT = re.compile(r"\biperf3 -c \S+([^&>;\n]*)")
# Options for our own reports, and the addresses and ports of one lab.
_OURS = re.compile(r" (-J|(-i|-B|-p|--cport|--connect-timeout) \S+)(?= |$)")
_PLACE = re.compile(r"\[[^\]\n]{4,}(?:\n[^\]\n]+)*\]")


@dataclass(frozen=True)
class MailFacts:
    """What a mail needs beside the run. A text is empty if it is not known.

    ``sender`` is ``Name <mail>``. ``subject`` is the first line of the commit of build B, ``parent`` whether build A is
    its parent. ``configs`` says how the kernel configurations of both builds differ; None if one was not kept.
    ``client`` is the recorded command line of iperf3's client, in which other words may stand before and behind it.
    """

    owner: Owner | None = None
    sender: str = ""
    subject: str = ""
    parent: bool = False
    bisect_log: str = ""
    configs: Sequence[str] | None = None
    client: str = ""


@dataclass(frozen=True)
class MailDraft:
    """A mail that a person completes and sends: the content of an .eml file, and its recipients.

    ``places`` are the texts in brackets that a person replaces.
    """

    data: bytes
    to: str
    places: Sequence[str]


def check_reportable(run: RunRecord) -> ChangeHeadRecord:
    """Return the answer of a run that a mail can report. Raises ConfigError: one sentence."""
    head = run.change
    if run.figures == "emulated":
        message = f"run {run.run} has emulated values, which are no reason to write to kernel developers"
        raise ConfigError(f"{message}; measure the change on boards")
    if head is None or head.verdict is not Verdict.FAIL or not slower(head):
        raise ConfigError(f"run {run.run} found no slower metric of a build, so there is nothing to report")
    if head.baseline == "accepted":
        message = f"run {run.run} compared with accepted baselines, so other things than the kernel may have changed"
        raise ConfigError(f"{message}; measure both builds alternately: pinet gate B --against A")
    source = head.b.known_source
    if "raspberrypi/linux" in source.tree or _PI_RELEASE.search(head.b.release or ""):
        message = f"kernel {head.b.release} is built from raspberrypi/linux, whose regressions are reported as issues"
        raise ConfigError(f"{message}: {_PI_ISSUES}; for a mail, show that a mainline kernel is slower, too")
    if any("-dirty" in text for text in (head.b.release or "", source.describe)):
        raise ConfigError(f"build {head.b.name} has uncommitted changes (-dirty); gate a build of the commit itself")
    return head


def slower(head: ChangeHeadRecord) -> list[ChangeEntryRecord]:
    """Return the slower metrics, the worst first."""
    found = [one for one in head.entries if one.verdict is Verdict.FAIL and one.change is not None]
    return sorted(found, key=lambda one: one.change or 0.0)


def worst_result(run: RunRecord, head: ChangeHeadRecord) -> ResultRecord:
    """Return the result with the worst metric."""
    return _result(run, slower(head)[0])


def draft(run: RunRecord, facts: MailFacts) -> MailDraft:
    """Return the mail on a run. Raises ConfigError if it cannot be reported."""
    head = check_reportable(run)
    worst = slower(head)[0]
    result = _result(run, worst)
    message = EmailMessage(policy=SMTP)
    domain = parseaddr(facts.sender)[1].rpartition("@")[2] or "localhost"
    message["Message-ID"] = identity = make_msgid("pinet", domain)
    # Mail programs open such a file as a draft.
    message["X-Unsent"] = "1"
    if facts.sender:
        message["From"] = facts.sender
    driver = result.build.get("driver") or ""
    change = f"{(worst.change or 0) * 100:+.1f}%"
    subject = ": ".join(filter(None, ("net", driver, f"{change} {_traffic(worst)} on {_board(result)}")))
    message["Subject"] = f"[REGRESSION] {subject}"
    owner = facts.owner
    copies = dict.fromkeys([*(owner.lists if owner is not None else ()), NETDEV, REGRESSIONS])
    copies |= {STABLE: None} if _STABLE_RELEASE.match(head.b.release or "") else {}
    if owner is not None and owner.to:
        message["To"] = ", ".join(owner.to)
    message["Cc"] = ", ".join(copies)
    sender = facts.sender or "[your name and address]"
    parts = [
        f"{_kernel(head, facts)}\n{_NEWEST}",
        _values(run, head),
        "[Name the practical use that became slower, and by how much. A slower\n"
        "micro-benchmark alone is unlikely to count as a regression.]",
        _machine(result, head, facts),
        _repeat(worst, result, facts.client),
        f"Bisection:\n{facts.bisect_log}"
        if facts.bisect_log
        else "[Add the log of git bisect, or say that it was not bisected.]",
        f"#regzbot introduced: {_introduced(head, facts)}",
        "If you fix this in a commit of its own, please add these tags:\n"
        f"Reported-by: {sender}\nCloses: https://lore.kernel.org/r/{identity.strip('<>')}",
    ]
    body = "\n\n".join(parts) + "\n"
    message.set_content(body, charset="utf-8", cte="8bit")
    data = message.as_bytes(policy=SMTP.clone(linesep="\n", max_line_length=200))
    return MailDraft(data, str(message["To"] or ""), [found[0].replace("\n", " ") for found in _PLACE.finditer(body)])


def _result(run: RunRecord, entry: ChangeEntryRecord) -> ResultRecord:
    return next(one for one in run.results if one.key == entry.result_key)


def _traffic(entry: ChangeEntryRecord) -> str:
    key = entry.id.split("/")[-1]
    if entry.cost is not None:
        return f"{JUDGED[entry.cost]}, {key}"
    found = _TRAFFIC.match(key)
    return f"{found['kind'].upper()} {entry.direction}" if found else key


def _board(result: ResultRecord) -> str:
    board = load().boards.get(result.combination.board)
    return board.title if board is not None else result.combination.board


def _name(build: BuildRecord) -> str:
    return kernel_words(build.known_source) or build.release or build.name


def _kernel(head: ChangeHeadRecord, facts: MailFacts) -> str:
    source = head.b.known_source
    if not source.commit:
        return f"kernel: {head.b.release or head.b.name}\n[State the commit and the tree of this kernel.]"
    subject = f' ("{facts.subject}")' if facts.subject else ""
    return f"commit: {source.commit}{subject}\n{source.tree} {source.branch}".rstrip()


def _values(run: RunRecord, head: ChangeHeadRecord) -> str:
    found = slower(head)
    dearer = all(entry.cost is not None for entry in found)
    what = "A Gbit costs the processors more" if dearer else "The goodput of a network interface became lower"
    lines = [
        f"{what}. Both kernels were booted\n"
        f"alternately ({count(head.turns, 'boot')}) on the same board, and measured on fresh connections.\n",
        f"  A: {_name(head.a)}",
        f"  B: {_name(head.b)}",
        "",
        f"  {'A':<{_WIDTH}}{'change':<{_WIDE}}B",
    ]
    for entry in found[:_MOST]:
        change = _result(run, entry).change
        cells = [_cell(run, entry, side) for side in ("A", "B")]
        one = changed_value(change, entry) if change is not None else None
        interval = one.interval if one is not None else None
        spread = f" ({interval[0] * 100:+.1f} to {interval[1] * 100:+.1f})" if interval is not None else ""
        moved = f"{(entry.change or 0) * 100:+.1f}%{spread}"
        lines.append(f"  {cells[0]:<{_WIDTH}}{moved:<{_WIDE}}{cells[1]}")
        where = "at the receiver" if entry.cost is None else JUDGED[entry.cost]
        lines.append(f"      {entry.id}, {where}{f' in lab {entry.lab}' if entry.lab else ''}")
    rest = len(found) - _MOST
    lines += [f"  and {count(rest, 'more slower metric')}"] if rest > 0 else []
    same = sum(one.verdict in GOOD for one in head.entries)
    lines += [f"\n{count(same, 'other metric')} {'is' if same == 1 else 'are'} not slower."] if same else []
    return "\n".join(lines)


def _cell(run: RunRecord, entry: ChangeEntryRecord, side: str) -> str:
    """Return a value, of a goodput with the standard deviation of its connections in percent."""
    if entry.cost is not None:
        return shown_cost(entry.cost, entry.a if side == "A" else entry.b)
    bps = entry.a_bps if side == "A" else entry.b_bps
    if bps is None:
        return "-"
    change = _result(run, entry).change
    turns = [turn for turn in change.turns if turn.side == side] if change is not None else []
    known = [level for turn in turns for level in turn.levels(entry.direction) if level]
    spread = f" +- {statistics.stdev(known) / statistics.mean(known) * 100:.1f}%" if len(known) > 1 else ""
    return f"{rate(bps)}{spread}"


def _machine(result: ResultRecord, head: ChangeHeadRecord, facts: MailFacts) -> str:
    turns = result.change.turns if result.change is not None else ()
    running = {turn.side: turn.running for turn in turns}
    model = (running.get("B") or {}).get("model") or _board(result)
    nic = (result.ran or {}).get("B")
    words = [f"{key} {value}" for key, value in nic.nic.items() if value] if nic is not None else []
    driver = ", ".join(words) or f"driver {result.build.get('driver') or 'not known'}"
    lines = [f"test machine: {model}", f"NIC: {result.combination.nic}, {driver}"]
    lines += [f"link: {result.link}"] if result.link else []
    lines += [f"kernel {side}: {known}" for side in "AB" if (known := (running.get(side) or {}).get("uname"))]
    lines += [f"compiler: {compiler}"] if (compiler := head.b.known_source.compiler) else []
    if facts.configs is None:
        lines.append("[State whether both kernels have the same configuration, and attach it.]")
    elif facts.configs:
        differ = "differs" if len(facts.configs) == 1 else "differ"
        lines.append(f"configuration: {count(len(facts.configs), 'option')} {differ} between A and B:")
        lines += [f"  {line}" for line in facts.configs[:_MOST]]
    else:
        lines.append("configuration: the same for A and B [attach it]")
    suspects = [one.suspect for one in head.entries if one.result_key == result.key and one.suspect]
    lines += [f"what differs most: {one}" for one in suspects[:1]]
    return "\n".join(lines)


def _repeat(entry: ChangeEntryRecord, result: ResultRecord, client: str) -> str:
    """Return the commands that repeat the traffic, as they were recorded. The peer is the client of sent traffic."""
    tuning = f"\nSettings: {result.combination.tuning}" if result.combination.tuning else ""
    if recorded := _CLIENT.search(client):
        ends = ("board", "peer") if entry.direction == "tx" else ("peer", "board")
        words = f"iperf3 -c {ends[0].upper()}{_OURS.sub('', recorded[1].rstrip())}"
        return f"To repeat, at full link speed:\n  {ends[0]}: iperf3 -s\n  {ends[1]}: {words}{tuning}"
    found = _TRAFFIC.match(entry.id.split("/")[-1])
    if found is None or found["kind"] == "http":
        return "[State how to repeat it without pytest-pinet.]"
    words = f"iperf3 -c PEER -P {found['streams']} -t 10"
    words += " -u -b RATE" if found["kind"] == "udp" else ""
    words += " -R" if entry.direction == "rx" else ""
    return f"To repeat, with iperf3 -s on a peer at full link speed, on the board:\n  {words}{tuning}"


def _introduced(head: ChangeHeadRecord, facts: MailFacts) -> str:
    """Return what regzbot tracks: the commit, or the range in which it is."""
    commits = [build.known_source.commit for build in (head.a, head.b)]
    if commits[1] and facts.parent:
        return commits[1]
    if all(commits):
        return f"{commits[0][:12]}..{commits[1][:12]}"
    versions = [re.match(r"\d+\.\d+(?:\.\d+)?(?:-rc\d+)?", build.release or "") for build in (head.a, head.b)]
    if versions[0] and versions[1] and versions[0][0] != versions[1][0]:
        return f"v{versions[0][0]}..v{versions[1][0]}"
    return "[the commit, or a range such as v6.12.24..v6.12.25]"


def config_differences(a: str, b: str) -> list[str]:
    """Return the options of two kernel configurations that differ: ``CONFIG_HZ: 250 -> 1000``."""
    of_a, of_b = (dict(re.findall(r"^(CONFIG_\w+)=(.*)$", text, re.MULTILINE)) for text in (a, b))
    names = sorted({*of_a, *of_b})
    return [
        f"{name}: {of_a.get(name, 'n')} -> {of_b.get(name, 'n')}"
        for name in names
        if of_a.get(name, "n") != of_b.get(name, "n") and name != "CONFIG_LOCALVERSION"
    ]
