"""The gate proves itself on a lab: known reductions are injected, and its verdicts counted."""
