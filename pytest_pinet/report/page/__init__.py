"""Our own report: one HTML file that needs no network, no script and no other program."""
