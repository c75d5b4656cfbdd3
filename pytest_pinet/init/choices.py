"""The words of options and answers, which need no import: the help of the command shows them."""

PEER_RUNNER, PEER_NONE = "runner", "none"
POWERS = (OUTLET, POE, NONE) = ("outlet", "poe", "none")
CONSOLES = (SERIAL, NONE) = ("serial", "none")
BACKENDS = (FIXED, SNMP, CLI, LINUX) = ("fixed", "snmp", "cli", "linux")
