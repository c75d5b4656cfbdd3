"""Completes the records of results with the values that only the session knows."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from pytest_pinet.errors import BLAMING, BuildError, ConfigError, InvalidMeasurement, PinetError
from pytest_pinet.model.combination import Combination
from pytest_pinet.model.judgement import MeasurementJudgement
from pytest_pinet.model.record.result import CombinationRecord, ResultRecord
from pytest_pinet.model.verdict import Verdict
from pytest_pinet.report.failure import DETAILS, failure_details, failure_text
from pytest_pinet.report.result_record import result_record, with_tool
from pytest_pinet.session.hook_calls import FACTS_KEY
from pytest_pinet.session.run_recorder import RunRecorder
from pytest_pinet.session.settings import settings

SUITES = "pytest_pinet.suites."
# What the processes of the latest measurement printed, until it is written to files.
RAW_KEY: pytest.StashKey[dict[str, str]] = pytest.StashKey()


def evidence_of(error: BaseException) -> str:
    """Return the output of tools that an error and its cause carry."""
    both = (error, error.__cause__)
    return "\n".join(
        text for one in both for text in (getattr(one, "evidence", ""), *getattr(one, "__notes__", ())) if text
    )


class ResultBuilder:
    """The only place of this package that changes records."""

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder

    def with_files(self, item: pytest.Item, record: ResultRecord, raw: Mapping[str, str]) -> ResultRecord:
        """Write what the processes of a measurement printed to files, and name the files in the record."""
        files = self._recorder.folder.write_raw(record.id, raw)
        # An error that follows has its own files.
        item.stash[RAW_KEY] = {}
        return record.replace(files=files)

    def finished(self, item: pytest.Item, record: ResultRecord) -> ResultRecord:
        """Add the test, the command that repeats it, facts of hooks, the tool, the scale and the final message."""
        tool, parameters = None, record.parameters
        lab = self._recorder.lab
        if not record.has_no_rate and lab is not None:
            tool = lab.http_tool if record.http is not None else lab.traffic_tool
            parameters = parameters and with_tool(parameters, tool)
        record = record.replace(
            test=item.nodeid,
            rerun=self._rerun_command(item),
            facts=item.stash.get(FACTS_KEY, None) or None,
            tool=tool,
            parameters=parameters,
            scale=self._recorder.scale,
        )
        if record.verdict in (Verdict.FAIL, Verdict.INVALID, Verdict.INCONCLUSIVE):
            shown = self._recorder.shown_folder
            files = self._recorder.folder.add_raw(record.files, DETAILS, f"{failure_details(record, shown)}\n")
            return record.replace(message=failure_text(record, shown), files=files)
        return record

    def of_error(
        self, item: pytest.Item, combination: Combination | CombinationRecord, error: PinetError
    ) -> ResultRecord:
        """Return the record of a test that an error ended. The record has no values."""
        verdict = Verdict.INVALID if isinstance(error, InvalidMeasurement) else Verdict.ERROR
        if isinstance(error, BLAMING):
            verdict = Verdict.FAIL
        return result_record(
            combination,
            "",
            MeasurementJudgement(verdict, str(error)),
            started=datetime.now(UTC).isoformat(),
            message=str(error),
            console_excerpt=error.excerpt,
            finding=error.kind if isinstance(error, BuildError) else None,
            test=item.nodeid,
            rerun=self._rerun_command(item),
        )

    def unended(self, item: pytest.Item, combination: Combination | CombinationRecord, message: str) -> ResultRecord:
        """Return the record that a test has until it ends."""
        return result_record(
            combination,
            "",
            MeasurementJudgement(Verdict.ERROR, message),
            message=message,
            test=item.nodeid,
            rerun=self._rerun_command(item),
            died=True,
        )

    def with_evidence(self, item: pytest.Item, record: ResultRecord, error: PinetError) -> ResultRecord:
        """Write the console excerpt and all output before the error to files, and name the files in the record."""
        texts = {"console.txt": record.console_excerpt, "evidence.txt": evidence_of(error)}
        files = {name: text for name, text in texts.items() if text} | item.stash.get(RAW_KEY, {})
        if files:
            files[DETAILS] = f"{failure_details(record, self._recorder.shown_folder)}\n"
            try:
                return record.replace(files=self._recorder.folder.write_raw(record.id, files))
            except ConfigError as trouble:
                self._recorder.warn(str(trouble))
        return record

    def _rerun_command(self, item: pytest.Item) -> str:
        """Return the command that repeats this test, from the folder in which this run was started."""
        config, lab = self._recorder.config, self._recorder.lab
        rootpath, invoked = config.rootpath, config.invocation_params.dir
        node = [item.nodeid if rootpath == invoked else os.path.relpath(rootpath / item.nodeid, invoked)]
        module = getattr(getattr(item, "module", None), "__name__", "")
        if module.startswith(SUITES):
            # The ids of tests outside of the rootdir depend on the words of the command line.
            node = ["--pyargs", f"{module}::{item.nodeid.partition('::')[2]}"]
        # With "=", or pytest takes the lab file for a test path when it looks for its root.
        found = settings(config)
        # An exact gate has no lab, but perhaps a file with its boards.
        files = [lab.file] if lab is not None else found.on_command_line("lab") if found["exact"] else ()
        return shlex.join(["pytest", *node, *(f"--pinet-lab={file}" for file in files), *found.repeated()])
