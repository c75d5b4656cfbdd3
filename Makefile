# gate: measure the virtual lab and judge it     test: the plugin's own tests      slow: those that take long
# lint: style, types, import directions          bench: what the plugin costs      docs: regenerate what is generated
# Everything lives in .venv/; system packages come through apt when root or sudo is there.

PYTHON ?= python3
BIN := .venv/bin
# gate PROFILE=published: the suites of all published systems, on a virtual lab of their own, and the table of all figures
PROFILE ?= lines
LAB ?= lab/$(if $(filter published,$(PROFILE)),published,virtual).yaml

.PHONY: gate gate-lines gate-published test slow lint bench docs clean
.DEFAULT_GOAL := gate

gate: gate-$(PROFILE)

gate-lines: .venv/user
	$(BIN)/pytest tests/gate/test_line_rate.py --pinet-lab=$(LAB) $(ARGS)

# The table also when a test fails (exit status 1): it shows by how much. Otherwise the latest run may be an older one.
# The lab that has every part must have every figure.
gate-published: .venv/user
	$(BIN)/pytest tests/gate --ignore=tests/gate/test_line_rate.py --pinet-lab=$(LAB) $(ARGS); \
	status=$$?; [ $$status -le 1 ] || exit $$status; \
	$(BIN)/pinet published $(if $(filter lab/published.yaml,$(LAB)),--complete) || status=$$?; exit $$status

test: .venv/developer
	$(BIN)/pytest tests/unit -n auto $(ARGS)
	$(BIN)/pytest tests/functional -m "not slow" $(ARGS)

slow: .venv/developer
	$(BIN)/pytest -m slow $(ARGS)

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
