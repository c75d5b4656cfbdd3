"""The comment on a pull request: the answer of each board in one line, and the functions below.

The code of the pull request ran in the job that wrote the answers, so it may have written them, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain

from pytest_pinet.errors import ConfigError
from pytest_pinet.execution.names import quoted
from pytest_pinet.model.record.result import RunRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.change_table import emulated_sentence
from pytest_pinet.report.exact_text import by_nic, function_rows
from pytest_pinet.report.markdown import MARKS, MOST_CHARACTERS, escaped, folded, function_tables

# A workflow finds its own comment by this line, and replaces it.
MARK = "<!-- pinet: answer -->"
_MOST_ANSWERS, LONGEST = 50, 500
_LINK = re.compile(r"https?://[A-Za-z0-9_.:/-]{1,300}")
COMMIT = re.compile(r"[0-9a-f]{7,64}")


def comment_markdown(
    answers: Mapping[str, RunRecord | str], commands: Sequence[str] = (), commit: str = "", link: str = ""
) -> str:
    """Return the whole comment. An answer is the run of a gate, or the reason why a board has none.

    ``commands`` repeat the result. ``commit`` is what was gated, ``link`` the address of the job; both can be empty.
    Raises ConfigError if they are neither a commit nor an address.
    """
    if commit and not COMMIT.fullmatch(commit):
        raise ConfigError(f"--commit: {quoted(commit)} is no commit; expected 7 to 64 hexadecimal digits")
    if link and not _LINK.fullmatch(link):
        raise ConfigError(f"--link: {quoted(link)} is no address; expected https://... without special characters")
    shown = dict(list(answers.items())[:_MOST_ANSWERS])
    lines = [_line(*one) for one in shown.items()]
    lines += [f"- and {more} more"] if (more := len(answers) - len(shown)) > 0 else []
    lines = lines or ["No board has an answer: none executes the changed files, or the gate ended early."]
    about = [*filter(None, (f"commit {commit[:12]}" if commit else "", f"[the job]({link})" if link else ""))]
    runs = [run for run in shown.values() if isinstance(run, RunRecord)]
    ends = [["", *folded("Repeat it", commands).splitlines()]] if commands else []
    ends += [["", escaped(meant[:LONGEST])] for meant in dict.fromkeys(map(emulated_sentence, runs)) if meant]
    ends += [["", f"<sub>{', '.join(about)}</sub>"]] if about else []
    end = "\n".join([*chain.from_iterable(ends), ""])
    text = "\n".join([MARK, *lines, ""])
    for run in runs:
        if any(map(function_rows, by_nic(run.results).values())):
            block = "\n".join(["", *function_tables(run.results)])
            if len(text) + len(block) + len(end) > MOST_CHARACTERS:
                break
            text += block
    # Never in the middle of a line, where an escape could lose its second half.
    return f"{text}{end}"[: MOST_CHARACTERS + 1].rpartition("\n")[0] + "\n"


def _line(name: str, answer: RunRecord | str) -> str:
    if isinstance(answer, str) or answer.change is None:
        why = answer if isinstance(answer, str) else "its run gated no build"
        return f"- {MARKS[Verdict.INCONCLUSIVE]} **{escaped(name[:LONGEST])}**: no answer: {escaped(why[:LONGEST])}"
    head = answer.change
    return f"- {MARKS[head.verdict]} **{escaped(name[:LONGEST])}**: {escaped(head.sentence[:LONGEST])}"
