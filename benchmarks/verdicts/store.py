"""Counted parts, kept in a file: the page and the statements of ``make soak`` share them, so each is counted once."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import asdict
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from benchmarks.verdicts.trials import Cell, Turns, flags, trial, turns
from benchmarks.verdicts.unseen import EIGHT_DAYS
from pytest_pinet.judge.difference import Relation

ROOT = Path(__file__).parents[2]
STORE = ROOT / ".pinet" / "verdicts.jsonl"
GATES = 600
# The rule errs in 1 % of its gates by design where days differ much, and three gates share a baseline. So these cells
# have more gates: with 600, chance decides whether 10 are wrong.
MORE_GATES = 1800
MORE_CASES = ("0", "1", "5")
DIFFERENT_DAYS = ("drift", "s3", "days 1 %", "days 2 %", "rough, days 1 %", *EIGHT_DAYS)
# Seeds 1 to 15 were used to choose thresholds, or for pages that were read between changes.
SEED = 21
# They show results, and have no influence on them.
SHOWING = ("__main__.py", "page.py", "store.py")
# Kind ("cell", "flags" or "turns"), link, case, and rule; for turns "yes" or "no" in place of the rule: calibrated.
Part = tuple[str, str, str, str]


@cache
def code() -> str:
    """Return a digest of the files that decide about the results."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in deciding_files())).hexdigest()[:12]


def deciding_files() -> list[Path]:
    """Return the files of the links and of the rules, and the modules of the judge that they use."""
    own = [file for file in Path(__file__).parent.glob("*.py") if file.name not in SHOWING]
    names = [f"benchmarks.verdicts.{file.stem}" for file in own if file.stem != "__init__"]
    # Only a new process has no other module of the judge loaded.
    judge = "(module.__file__ for name, module in sys.modules.items() if name.startswith('pytest_pinet.judge'))"
    load = f"import sys, {', '.join(names)}; print(*{judge})"
    done = subprocess.run([sys.executable, "-c", load], cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted([*own, *map(Path, done.stdout.split())])


def gates_of(part: Part, gates: int = GATES) -> int:
    """Return how many gates a part has if most cells of ours have ``gates``."""
    kind, link, case, rule = part
    if kind == "turns":
        return max(gates // 4, 2)
    more = gates == GATES and kind == "cell" and link in DIFFERENT_DAYS and case in MORE_CASES and "8 days" in rule
    return MORE_GATES if more else gates


def count(part: Part, gates: int, seed: int) -> Any:
    """Count one part. The result is what ``kept`` returns: of types that JSON has."""
    kind, link, case, rule = part
    if kind == "flags":
        return flags(link, case, gates, seed)
    counted = (
        trial(link, case, rule, gates, seed) if kind == "cell" else turns(link, int(case), gates, rule == "yes", seed)
    )
    return json.loads(json.dumps(asdict(counted)))


def kept(file: Path, seed: int) -> dict[tuple[Part, int], Any]:
    """Return the results in a file, by part and gates, that today's code counted with this seed."""
    if not file.exists():
        return {}
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    return {
        (tuple(one["part"]), one["gates"]): one["found"]
        for one in entries
        if (one["code"], one["seed"]) == (code(), seed)
    }


def keep(file: Path, part: Part, gates: int, seed: int, found: Any) -> None:
    """Append a result. A line is one write, so several processes may append at once."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as opened:
        opened.write(json.dumps({"code": code(), "seed": seed, "gates": gates, "part": part, "found": found}) + "\n")


def result(part: Part, gates: int | None = None, file: Path = STORE) -> Any:
    """Return a result from a file, and count it first if it is not there. The default is the gates of the page."""
    gates = gates_of(part) if gates is None else gates
    known = _known(file, file.stat().st_size if file.exists() else 0)
    if (part, gates) not in known:
        keep(file, part, gates, SEED, count(part, gates, SEED))
        return result(part, gates, file)
    return known[part, gates]


@lru_cache(maxsize=1)
def _known(file: Path, _size: int) -> dict[tuple[Part, int], Any]:
    """Return what is kept in a file, which only grows: it is read again if another process has added a result."""
    return kept(file, SEED)


def as_cell(found: Any) -> Cell:
    """Return the result of a part "cell"."""
    return Cell(**found)


def as_turns(found: Any) -> Turns:
    """Return the result of a part "turns"."""
    return Turns(**found | {"results": {Relation(name): share for name, share in found["results"].items()}})
