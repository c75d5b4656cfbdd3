"""Pure code that turns figures and limits into verdicts; no I/O, no clock, no pytest, no labgrid."""
