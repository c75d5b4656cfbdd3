"""The values of ``results.json``: one frozen class for each object of the file."""
