"""Running commands: shell, output file, deadline, undo, and the trace of steps."""
