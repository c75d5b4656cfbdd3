"""Leases without a coordinator: a lock file on each board, with its owner and a heartbeat."""
