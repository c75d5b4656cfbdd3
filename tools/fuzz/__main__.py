"""``python -m tools.fuzz [SECONDS] [NAME...]``: fuzzes all formats, or the named ones; by default for an hour.

The turn is the seed, so that ``--turn`` continues an earlier run, or repeats its finding.
"""

from __future__ import annotations

import argparse
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
    parser = argparse.ArgumentParser(prog="tools.fuzz", description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=HOUR_S, help="how long (3600)")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"formats (all): {', '.join(TARGETS)}")
    parser.add_argument("--turn", type=int, default=1, help="continue with this turn of an earlier run")
    options = parser.parse_args(words)
    if unknown := [name for name in options.names if name not in TARGETS]:
        parser.error(f"unknown format '{unknown[0]}'; accepted: {', '.join(TARGETS)}")
    prepare()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    chosen = {name: TARGETS[name] for name in options.names or TARGETS}
    started, turn = time.monotonic(), options.turn
    counts = dict.fromkeys(chosen, 0)
    while (left := started + options.seconds - time.monotonic()) > 0:
        for name, target in chosen.items():
            try:
                counts[name] += fuzz(target, TURN, left, seed=turn)
            except Finding as finding:
                print(f"{name}, turn {turn}: {finding}")
                return 1
            if (left := started + options.seconds - time.monotonic()) <= 0:
                break
        print(f"{time.monotonic() - started:.0f} s, turn {turn}: {sum(counts.values())} examples", flush=True)
        turn += 1
    print(", ".join(f"{name} {count}" for name, count in counts.items()))
    found = f"{sum(counts.values())} examples of {len(counts)} formats without a finding"
    spent = f"{time.monotonic() - started:.0f} s, {time.process_time():.0f} s of processor time"
    print(f"{found}, turns {options.turn} to {turn - 1}: {spent}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
