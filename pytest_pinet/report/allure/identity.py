"""The identity of a test in Allure: one permanent id per combination and test.

Allure's own id is a hash of file name, function and parameters without separators. A moved file, another working
directory or an object among the parameters cuts a trend, and two combinations may get the same id.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.model.metric_key import CombinationId

# The only parameter that is not excluded, so Allure 3 includes it in its hash.
PARAMETER = "combination"


@dataclass(frozen=True)
class Subject:
    """What a test measures: a combination, the test's name, and its parameters other than the link.

    ``test`` is the name without file and parameters. ``path`` is the file; it becomes part of the key only if two tests
    would have the same key.
    """

    combination: CombinationId
    test: str
    parameters: Mapping[str, object]
    path: str
    told_apart: str = ""

    @property
    def key(self) -> str:
        """Return a JSON text of all stable parts, without ambiguity."""
        of = self.combination
        parts = [of.board, of.nic, of.topology, self.test, {k: repr(v) for k, v in self.parameters.items()}]
        # Omit empty parts, so that tests from before tunings existed keep their id.
        tuning = [{"tuning": of.tuning}] if of.tuning else []
        return json.dumps([*parts, *tuning, *([self.told_apart] if self.told_apart else [])], sort_keys=True)

    @property
    def id(self) -> str:
        """Return the test case id and history id of Allure 2. Allure 3 derives its own id from it."""
        return _md5(f"pinet:{self.key}")


def allure3_id(test_case_id: str, combination: str) -> str:
    """Return the history id of Allure 3 (3.18: ``md5(testCaseId).md5(name:value)``)."""
    return f"{_md5(test_case_id)}.{_md5(f'{PARAMETER}:{combination}')}"


def tell_apart(subjects: Sequence[Subject]) -> list[Subject]:
    """Return the subjects. Where tests of several files have the same key, the file becomes part of the key."""
    keys = Counter(subject.key for subject in subjects)
    return [replace(s, told_apart=s.path) if keys[s.key] > 1 else s for s in subjects]


def _md5(text: str) -> str:
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
