"""Options for the runs of pytest that tests start."""

from __future__ import annotations

# At its end, each run of pytest would import Hypothesis to find that it did nothing: half a second of processor time.
WITHOUT_HYPOTHESIS = "-p no:hypothesispytest"
