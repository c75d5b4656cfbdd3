"""Writes the whole run as one JSON file for ``--pinet-json PATH``. The file is complete or does not exist."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_pinet.execution.output_file import write_file, writing
from pytest_pinet.model.record.run import RunRecord

OPTION = "--pinet-json"


def write_json(path: Path, run: RunRecord, option: str = OPTION) -> None:
    """Write ``run`` to ``path``. Raises ConfigError."""
    text = json_text(run)
    with writing(path, option):
        write_file(path, [text.encode("ascii")])


def json_text(run: RunRecord) -> str:
    """Return the JSON of a run in ASCII, which escapes lone surrogates from undecodable console bytes."""
    # nan is a bug and not valid JSON.
    return json.dumps(run.dump(), indent=1, ensure_ascii=True, allow_nan=False) + "\n"
