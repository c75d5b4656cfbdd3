"""Helpers are in tests/support: no test module imports another one."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
IMPORT = re.compile(r"^ *(?:from|import) +(?:tests\.[\w.]+\.test_|\.+\w*test_)\w*.*", re.M)


def test_no_test_module_imports_another() -> None:
    files = sorted(TESTS.rglob("*.py"))
    assert len(files) > 300
    assert {str(file): found for file in files if (found := IMPORT.findall(file.read_text(encoding="utf-8")))} == {}
