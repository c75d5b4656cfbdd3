"""``python -m tools.soak``, called by ``make soak``: runs every statement of tests/soak/ as often as it requires.

A statement is a test with ``@pytest.mark.soak("one sentence that can be true or false", runs=10)``. Each run is its own
pytest process. Its result is stored in docs/contributing/soak.json when it ends, so that the next call continues there.
soak.md beside it is generated from it.
"""
