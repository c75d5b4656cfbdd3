"""``python -m tools.causes``: judges mixed scenarios, and writes how many causes are right to docs/explanation/."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pytest_pinet.model.evidence import Cause
from tests.support.cause_scenario import Scenario
from tests.support.cause_scenarios import scenarios

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "causes.md"
# Each seed draws other rates, losses, queues and loads, and another order.
SEEDS = range(18, 30)
HEAD = """\
# How often the cause is right

`limited_by` names one cause of a value ([the rules](verdicts.md#what-limited-it)). This page has the result of {count}
scenarios with a known cause: {mixes} mixes of {each}, each in its own random order. Many scenarios also have symptoms
of other causes, such as a full CPU beside a shaper. The last column has the negative controls of a cause: scenarios
with its symptoms in which another cause, or none, limits the value. A test fails if a cause has no control, or if a
control is judged wrongly.

Where the values come from:

- **Published for real boards:** goodput, link, NIC and bus of {published} of the {kinds} kinds of scenarios. If a range
  was published, the value is drawn from about this range. `tests/support/cause_scenarios.py` names the sources.
- **Like a known fault:** {like} more kinds of scenarios. The kind of fault was seen on real boards or in our runs. The
  values are assumed.
- **From a model:** the course of TCP over losses, queues and windows (`tests/support/tcp_model.py`). The model knows
  nothing of the rules.
- **Assumed:** all loads of CPUs, shares of interrupts and softirqs, other programs, stolen time, clocks, temperatures
  and throttling, retransmits outside of the model, and all values of the remaining kinds.

So the page shows that the rules tell the causes apart. It does not show how often they do on real boards: no scenario
has readings that a real board printed, since the project has none. `tests/unit/judge/test_recorded_causes.py` feeds
recorded texts of other machines through the parsers to a cause: `/proc/stat` of a virtual machine whose host took
processor time, and iperf3 with a rate limit.

**{right} of {count} causes are right ({percent:.1f} %).** In each mix at least 95 % must be.

`python -m tools.causes` writes this page; a test fails if the page is not current.
"""


def page(found: Sequence[tuple[Scenario, Cause]]) -> str:
    """Return the page from the scenarios and the causes that the rules named."""
    wrong = [(one, cause) for one, cause in found if cause is not one.cause]
    right, count = len(found) - len(wrong), len(found)
    head = HEAD.format(
        count=count,
        mixes=len(SEEDS),
        each=count // len(SEEDS),
        right=right,
        percent=100 * right / count,
        kinds=len({_kind(one) for one, _ in found}),
        like=len({_kind(one) for one, _ in found if one.source.startswith("like ")}),
        published=len({_kind(one) for one, _ in found if one.is_published}),
    )
    title = "| cause | scenarios | right | this cause instead of another | controls right |"
    lines = [head, title, "|---|---|---|---|---|"]
    for cause in Cause:
        own = [named for one, named in found if one.cause is cause]
        instead = sum(named is cause for _, named in wrong)
        controls = [named is one.cause for one, named in found if one.control_of is cause]
        held = f"{sum(controls)} of {len(controls)}" if controls else "-"
        lines.append(f"| `{cause}` | {len(own)} | {own.count(cause)} | {instead} | {held} |")
    lines += ["", "## The wrong ones", ""]
    if not wrong:
        return "\n".join([*lines, "None.", ""])
    lines += ["| scenario | source | cause | named | how often |", "|---|---|---|---|---|"]
    for (name, source, right_cause, named), times in sorted(_counted(wrong).items()):
        of = sum(one.name == name for one, _ in found)
        lines.append(f"| {name} | {source} | `{right_cause}` | `{named}` | {times} of {of} |")
    return "\n".join([*lines, ""])


def _kind(one: Scenario) -> str:
    """Return the name without the drawn numbers."""
    return re.sub(r"[\d.]+", "", one.name)


def _counted(wrong: Sequence[tuple[Scenario, Cause]]) -> Counter[tuple[str, str, str, str]]:
    return Counter((one.name, one.source, str(one.cause), str(named)) for one, named in wrong)


def judged(seed: int) -> list[tuple[Scenario, Cause]]:
    """Return the scenarios of a mix, each with the cause that the rules name."""
    return [(one, one.found().cause) for one in scenarios(seed)]


if __name__ == "__main__":
    PAGE.write_text(page([one for seed in SEEDS for one in judged(seed)]), encoding="utf-8")
