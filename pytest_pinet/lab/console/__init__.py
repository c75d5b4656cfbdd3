"""The serial console of a node: driver, login, record, and the kernel messages on it."""
