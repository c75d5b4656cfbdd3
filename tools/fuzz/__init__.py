"""``make fuzz``: mangles files of every format that we read, until a reader ends in a traceback or does not end."""
