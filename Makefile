# gate: measure the virtual lab and judge it     test: the plugin's own tests      slow: those that take long
# lint: style, types, import directions          bench: what the plugin costs      docs: regenerate what is generated
# soak: the slow tests that CI has no time for
# emulated: gate kernels on boards in QEMU; ARGS goes to pytest; EMULATED_TESTS are its tests
# pictures: make those of docs/ anew, and keep what the browser tests see in .pinet/pictures/
# report: install Allure, and make the report of all runs with it; `gate` ends with one, by Allure where it is there
# Everything lives in .venv/; system packages come through apt when root or sudo is there.

PYTHON ?= python3
BIN := .venv/bin
# gate PROFILE=published: the suites of all published systems, on a virtual lab of their own, and the table of all figures
PROFILE ?= lines
LAB ?= lab/$(if $(filter published,$(PROFILE)),published,virtual).yaml

.PHONY: gate emulated report test slow soak lint bench docs pictures clean
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

# Tests that only wait, for boards, switches and leases, do so side by side; those that measure run one after the other.
# Boards in QEMU measure in their own time, which goes on at the same pace whatever else runs.
WAITING := -n 4 --dist loadfile --no-loadscope-reorder
EMULATING := -n 2 --dist loadfile

test: .venv/developer
	@FOR=test tools/system-packages
	tools/second-try tests/unit -m "not slow" -n auto $(ARGS)
	tools/second-try tests/functional -m "not slow and not measures" $(WAITING) $(ARGS)
	tools/second-try tests/functional -m "not slow and measures" $(ARGS)

slow: .venv/developer
	@FOR=slow WANT=emulated tools/system-packages
	@tools/install-allure || echo "no Allure here: tests of its reports are skipped"
	tools/second-try -m "slow and not soak and not measures and not emulated" $(WAITING) $(ARGS)
	tools/second-try -m "slow and not soak and measures" $(ARGS)
	tools/second-try -m "slow and not soak and emulated" $(EMULATING) $(ARGS)

soak: .venv/developer
	tools/second-try -m soak $(ARGS)

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

# The pictures of README.md are among what the browser tests see; the virtual lab measures for them.
PICTURES := $(CURDIR)/.pinet/pictures
pictures: .venv/developer
	tools/install-allure
	PINET_PICTURES=$(PICTURES) $(BIN)/pytest -m slow tests/functional/test_report_page_browser.py \
		tests/functional/test_allure_report.py $(ARGS)
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
