"""The lab file: read with line numbers, checked against its schema, resolved into the model.

A mistake is one ConfigError with file and line.
"""
