"""Leased nodes: their sessions, the pool that holds the sessions, and the quarantine."""
