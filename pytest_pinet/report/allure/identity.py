"""Which results of different runs are the same test to Allure: one id per combination and test, for ever.

Allure's own id is a hash of file name, function and parameters without separators: a moved file, another working
directory or an object among the parameters cuts a trend, and two combinations may share an id.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_pinet.model.combination import combination_id

# The one parameter that Allure 3 hashes itself.
PARAMETER = "combination"


@dataclass(frozen=True)
class Subject:
    """What a test stands for. ``test`` is its name without file and parameters, ``parameters`` are those but the link.

    ``path`` is the file, which only tells apart what would else be the same. ``tuning`` is empty without one.
    """

    board: str
    nic: str
    topology: str
    test: str
    parameters: Mapping[str, object]
    path: str
    told_apart: str = ""
    tuning: str = ""

    @property
    def combination(self) -> str:
        return combination_id(self.board, self.nic, self.topology, self.tuning)

    @property
    def key(self) -> str:
        """All that is stable, unambiguously."""
        parts = [self.board, self.nic, self.topology, self.test, {k: repr(v) for k, v in self.parameters.items()}]
        # What is empty is left out, so that what was there before tunings has the id that it always had.
        tuning = [{"tuning": self.tuning}] if self.tuning else []
        return json.dumps([*parts, *tuning, *([self.told_apart] if self.told_apart else [])], sort_keys=True)

    @property
    def id(self) -> str:
        """Test case and history id of Allure 2, and what Allure 3 makes its own from."""
        return _md5(f"pinet:{self.key}")

    @property
    def allure3_id(self) -> str:
        """As Allure 3 computes it from the test case and the parameters that are not excluded."""
        return allure3_id(self.id, self.combination)


def allure3_id(test_case_id: str, combination: str) -> str:
    """The history id of Allure 3 (3.18: ``md5(testCaseId).md5(name:value)``)."""
    return f"{_md5(test_case_id)}.{_md5(f'{PARAMETER}:{combination}')}"


def tell_apart(subjects: Sequence[Subject]) -> list[Subject]:
    """The same subjects, where several files have a test of the same name with its file among what is stable."""
    keys = Counter(subject.key for subject in subjects)
    return [replace(s, told_apart=s.path) if keys[s.key] > 1 else s for s in subjects]


def _md5(text: str) -> str:
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
