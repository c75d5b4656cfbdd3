# gate: measure the virtual lab and judge it     test: the plugin's own tests      smoke: one real case of each feature
# lint: style, types, import directions          bench: what the plugin costs      docs: regenerate what is generated
# slow: tests that take longer than CI has time for      soak: statements about many repetitions
# emulated: gate kernels on boards in QEMU; ARGS goes to pytest; EMULATED_TESTS are its tests
# pictures: make those of docs/ anew, and keep what the browser tests see in .pinet/pictures/
# report: install Allure, and make the report of all runs with it; `gate` ends with one, by Allure where it is there
# Everything lives in .venv/; system packages come through apt when root or sudo is there.

PYTHON ?= python3
BIN := .venv/bin
# gate PROFILE=published: the suites of all published systems, on a virtual lab of their own, and the table of all figures
PROFILE ?= lines
LAB ?= lab/$(if $(filter published,$(PROFILE)),published,virtual).yaml

.PHONY: gate emulated report test smoke slow soak lint plain bench docs pictures clean
.DEFAULT_GOAL := gate

# What `gate` leaves for Allure, where allure-pytest is installed, and the report.
RESULTS := .pinet/allure-results
REPORT ?= .pinet/report.html
WRITE_REPORT = $(BIN)/pinet report --lab=$(LAB) -o $(REPORT) $$(test ! -d $(RESULTS) || echo --allure-results $(RESULTS))
TESTS := $(if $(filter published,$(PROFILE)),tests/gate --ignore=tests/gate/test_line_rate.py,tests/gate/test_line_rate.py)

# The lab that has every part must have every figure.
COMPLETE := $(if $(filter lab/published.yaml,$(LAB)),--complete)

# The report, and the table of published figures, also when a test fails (exit status 1): they show by how much.
gate: .venv/user
	@allure=""; \
	if $(BIN)/python -c "import allure_pytest" 2>/dev/null; then allure="--alluredir=$(RESULTS) --clean-alluredir"; fi; \
	set -x; $(BIN)/pytest $(TESTS) --pinet-lab=$(LAB) $$allure $(ARGS); { status=$$?; set +x; } 2>/dev/null; \
	test $(PROFILE) != published || test $$status -gt 1 || $(BIN)/pinet published $(COMPLETE) || status=1; \
	$(WRITE_REPORT) || test $$status != 0 || status=1; \
	exit $$status

# Without hardware: a kernel against itself passes, and against one whose packets take a longer way it fails (status 1).
# What one NIC receives, which repeats best; all: make emulated EMULATED_TESTS=tests/emulated
EMULATED_TESTS ?= tests/emulated -k "receive and e1000e"
EMULATED = $(BIN)/pinet gate --lab lab/emulated.yaml $(1) $(EMULATED_TESTS) $(ARGS)
emulated: .venv/user
	@WANT=emulated PYTHON=$(PYTHON) tools/system-packages
	@$(BIN)/pinet emulated card
	@echo "1 of 2: a kernel against itself, which must pass"
	$(call EMULATED,lab/builds/as-it-is.yaml)
	@echo "2 of 2: the same kernel, made to copy each packet once more, which must fail"
	@set -x; $(call EMULATED,lab/builds/slower.yaml); { status=$$?; set +x; } 2>/dev/null; \
	test $$status = 1 || { echo "make emulated: that was to end with status 1, not $$status" >&2; exit $$((status + 1)); }
	@echo "Both came out as they must: the kernel passed against itself, and the slower one was found."

report: .venv/user
	@tools/install-allure
	@$(WRITE_REPORT)

# Tests mostly wait for boards, switches and leases, so that more of them run at once than there are processors. Boards in
# QEMU need a processor each; they count their own instructions as time, so that other work does not disturb them.
PYTEST := $(BIN)/pytest
QUICK := not slow and not smoke and not soak
SIDE_BY_SIDE := --dist loadfile --no-loadscope-reorder

test: .venv/developer
	@FOR=test tools/system-packages
	$(PYTEST) tests/unit -m "$(QUICK)" -n auto $(ARGS)
	$(PYTEST) tests/functional -m "$(QUICK)" -n 4 $(SIDE_BY_SIDE) $(ARGS)

# One real case of each family of features.
smoke: .venv/developer
	@FOR=slow WANT=emulated tools/system-packages
	@tools/install-allure
	$(PYTEST) -m smoke -n 2 $(SIDE_BY_SIDE) $(ARGS)

# What takes longer than CI has time for.
slow: .venv/developer
	@FOR=slow WANT=emulated tools/system-packages
	@tools/install-allure || echo "no Allure here: tests of its reports are skipped"
	$(PYTEST) -m "slow and not emulated" -n 4 $(SIDE_BY_SIDE) $(ARGS)
	$(PYTEST) -m "slow and emulated" -n 2 $(SIDE_BY_SIDE) $(ARGS)

# Statements that need many runs: goes on where it stopped, and keeps what came of each run in docs/soak.json and
# docs/soak.md. ARGS: --list, -k WORD, --again, --page.
soak: .venv/developer
	@FOR=slow WANT=emulated tools/system-packages
	$(BIN)/python -m tools.soak $(ARGS)

lint: .venv/developer
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

plain: .venv/developer
	$(BIN)/python tools/plain-words

bench: .venv/developer
	$(BIN)/python -m benchmarks

docs: .venv/developer
	$(BIN)/python -m pytest_pinet.config.schema
	$(BIN)/python -m pytest_pinet.report.schema

# The pictures of README.md are among what the browser tests see; the virtual lab measures for them.
PICTURES := $(CURDIR)/.pinet/pictures
pictures: .venv/developer
	tools/install-allure
	PINET_PICTURES=$(PICTURES) $(BIN)/pytest -m smoke tests/functional/report/test_page_browser.py \
		tests/functional/report/test_allure_report.py $(ARGS)
	cp $(PICTURES)/report-page.png $(PICTURES)/report-allure.png docs/

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
