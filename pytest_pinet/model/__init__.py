"""Frozen values without I/O: quantities, hardware, topologies, traffic, combinations, measurements, verdicts."""
