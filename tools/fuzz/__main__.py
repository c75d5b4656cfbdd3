"""``python -m tools.fuzz [SECONDS] [NAME...]``: fuzzes all formats, or the named ones; by default for an hour."""

from __future__ import annotations

import resource
import sys
import time

from tools.fuzz.run import Finding, fuzz
from tools.fuzz.targets import TARGETS, prepare

HOUR_S = 3600.0
# Examples of one format before the next one has its turn.
TURN = 200
MEMORY = 3 * 2**30


def main(words: list[str]) -> int:
    """Return 0 if all readers read or refused all examples, 1 with the example otherwise."""
    seconds = float(words[0]) if words and words[0].replace(".", "").isdecimal() else HOUR_S
    names = words[1:] if words and words[0].replace(".", "").isdecimal() else words
    prepare()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    chosen = {name: TARGETS[name] for name in names or TARGETS}
    deadline = time.monotonic() + seconds
    counts = dict.fromkeys(chosen, 0)
    turn = 0
    while time.monotonic() < deadline:
        turn += 1
        for name, target in chosen.items():
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                counts[name] += fuzz(target, TURN, left, seed=turn)
            except Finding as finding:
                print(f"{name}: {finding}")
                return 1
        print(f"{seconds - deadline + time.monotonic():.0f} s: {sum(counts.values())} examples", flush=True)
    print(", ".join(f"{name} {count}" for name, count in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
