# gate: measure the virtual lab and judge it     test: the plugin's own tests      slow: those that take long
# lint: style, types, import directions          bench: what the plugin costs      docs: regenerate what is generated
# Everything lives in .venv/; system packages come through apt when root or sudo is there.

PYTHON ?= python3
BIN := .venv/bin
LAB ?= lab/virtual.yaml

.PHONY: gate test slow lint bench docs clean
.DEFAULT_GOAL := gate

gate: .venv/user
	$(BIN)/pytest tests/gate --pinet-lab=$(LAB) $(ARGS)

test: .venv/developer
	$(BIN)/pytest tests/unit -n auto $(ARGS)
	tools/second-try tests/functional -m "not slow" $(ARGS)

slow: .venv/developer
	tools/second-try -m slow $(ARGS)

lint: .venv/developer
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/developer
	$(BIN)/python -m benchmarks

docs: .venv/developer
	$(BIN)/python -m pytest_pinet.config.schema
	$(BIN)/python -m pytest_pinet.report.schema

clean:
	test ! -x $(BIN)/pinet || $(BIN)/pinet lab down --lab=$(LAB)
	rm -rf .venv .pinet build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# A stamp for each kind of environment; a change of the metadata makes it anew.
.venv/user: setup.cfg pyproject.toml
	@PYTHON=$(PYTHON) tools/system-packages
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[virtual]"
	@touch $@

.venv/developer: .venv/user setup.cfg
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[virtual,dev]"
	@touch $@
