"""Builds on boards: put there beside the known-good one, booted, identified, taken back."""
