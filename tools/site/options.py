"""The reference of the settings of a run, from their one declaration, and of all other environment variables."""

from __future__ import annotations

import re
from pathlib import Path

from tools.site.markdown import code, plain, table

# Variables that are read besides the settings. A test compares the names with the source.
OTHERS = {
    "FORCE_COLOR": "commands print colour even if their output is no terminal",
    "LG_COORDINATOR": "address of labgrid's coordinator, if the lab file does not name one",
    "NO_COLOR": "commands print no colour, if it has any value",
    "PINET_ALLURE": "the Allure command for `pinet report`",
    "PINET_QEMU": "another QEMU for exact boards: its program, or a folder of unpacked Debian packages",
    "TERM": "`dumb` is a terminal without colour",
    "XDG_CACHE_HOME": "folder for caches: fetched packages, cards of emulated boards, trials of link rates",
    "XDG_RUNTIME_DIR": "folder for the state of a running virtual lab",
    "XDG_STATE_HOME": "folder for the notes by which changes of switch ports, and `pinet demo`, are undone",
}
_READ = re.compile(
    r"""environ(?:\.get\(|\[|\.pop\()\s*["']([A-Z][A-Z0-9_]+)["']|getenv\(["']([A-Z0-9_]+)["']"""
    r"""|^\w+ = ["'](PINET_[A-Z_]+)["']""",
    re.M,
)
# Set for programs that we start, read from pytest-xdist or PATH, or an example.
NOT_OURS = {"PATH", "COMP_LINE", "CI_JOB_ID", "LG_HOSTNAME", "LG_USERNAME"}
# Set by a demo for its own second process, and by a lab and a run for processes that they start.
NOT_OURS |= {"PINET_DEMO_ROOTLESS", "PINET_RUN", "PINET_VLAB"}


def options() -> str:
    """Return a table of all settings: option, values and default."""
    from pytest_pinet.session.option_table import SETTINGS

    rows = []
    for one in SETTINGS:
        name = code(" ".join(filter(None, [one.option, one.metavar])))
        default = code(one.default) if one.default else plain(one.otherwise)
        rows.append([name, default, plain(one.help) + (" (repeatable)" if one.repeatable else "")])
    return table(["option", "default", "meaning"], rows)


def environment() -> str:
    """Return a table of the environment variables that are no setting of a run."""
    return table(["variable", "meaning"], [[code(name), meaning] for name, meaning in OTHERS.items()])


def variables_in_source() -> set[str]:
    """Return the names of the environment variables that the package reads, except pytest's own."""
    folder = Path(__file__).parents[2] / "pytest_pinet"
    texts = [path.read_text(encoding="utf-8") for path in folder.rglob("*.py")]
    names = {name for text in texts for groups in _READ.findall(text) for name in groups if name} - NOT_OURS
    return {name for name in names if not name.startswith("PYTEST_")}
