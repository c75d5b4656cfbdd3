"""Pure code that turns measured values and limits into verdicts; no I/O, no clock, no pytest, no labgrid."""
