# gate: measure the virtual lab and judge it     test: the plugin's own tests      smoke: one real case of each feature
# lint: style, types, import directions, words   bench: what the plugin costs      docs: regenerate what is generated
# man: the man pages of all commands, from their help
# slow: tests that take too long for CI                 soak: statements about many repetitions
# fuzz: mangled files for every reader, for an hour
# regressions: reported regressions, injected into virtual labs and boards in QEMU; ARGS="--row 11" chooses
# exact: a kernel against itself, and four drivers with four more instructions, on exact boards
# emulated: gate kernels on boards in QEMU; ARGS goes to pytest; EMULATED_TESTS are its tests
# versions: try the wheel with each Python from 3.11 to 3.14 that this machine has, or uv can download
# site: build the documentation as a web site in .pinet/site/
# pictures: regenerate the pictures of docs/; .pinet/pictures/ has more of the same tests
# links: ask each address that docs/ names whether it is there; needs a network, so no test runs it
# report: install Allure's viewer and write the report of all runs; `gate` also writes one, with Allure if it is installed
# Everything is installed in .venv/. System packages are installed with apt, as root or with sudo.

PYTHON ?= python3
BIN := .venv/bin
# gate PROFILE=published: the suites of all published systems in their own virtual lab, and the table of all values
PROFILE ?= lines
LAB ?= lab/$(if $(filter published,$(PROFILE)),published,virtual).yaml

# Some container images set this. Then each of the hundreds of processes that our tests start compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: gate versions emulated exact regressions report test smoke slow soak fuzz lint bench docs man site links pictures
.PHONY: clean
.DEFAULT_GOAL := gate
# They share one environment and one lab.
.NOTPARALLEL:

# The results that `gate` writes for Allure, with their history, and the report.
RESULTS := .pinet/allure-results
REPORT ?= .pinet/report.html
WRITE_REPORT = $(BIN)/pinet report --lab=$(LAB) -o $(REPORT) $$(test ! -d $(RESULTS) || echo --allure-results $(RESULTS))
SUITES := pytest_pinet/suites
LINE_RATE := $(SUITES)/test_line_rate.py
TESTS := $(if $(filter published,$(PROFILE)),$(SUITES) --ignore=$(LINE_RATE) --ignore=$(SUITES)/test_everyday.py,$(LINE_RATE))

# This lab has every board, so it must measure every published value.
COMPLETE := $(if $(filter lab/published.yaml,$(LAB)),--complete)

# Writes the report and the table of published values even if a test fails (exit status 1), because they show why.
gate: .venv/user
	@set -x; $(BIN)/pytest $(TESTS) --pinet-lab=$(LAB) --alluredir=$(RESULTS) --clean-alluredir $(ARGS); \
	{ status=$$?; set +x; } 2>/dev/null; \
	test $(PROFILE) != published || test $$status -gt 1 || $(BIN)/pinet compare published $(COMPLETE) || status=1; \
	$(WRITE_REPORT) || test $$status != 0 || status=1; \
	exit $$status

# Without hardware: a kernel compared with itself passes; a kernel with a slower receive path fails (status 1).
# Only received traffic of one NIC, which varies least. All tests: make emulated EMULATED_TESTS=pytest_pinet/suites/test_packet_path.py
EMULATED_TESTS ?= $(SUITES)/test_packet_path.py -k "receive and e1000e"
EMULATED = $(BIN)/pinet gate --lab lab/emulated.yaml $(1) $(EMULATED_TESTS) $(ARGS)
emulated: .venv/user
	@WANT=emulated PYTHON=$(PYTHON) tools/system-packages
	@$(BIN)/pinet emulated card
	@echo "1 of 2: a kernel compared with itself, which must pass"
	$(call EMULATED,lab/builds/as-it-is.yaml)
	@echo "2 of 2: the same kernel with one more copy of each packet, which must fail"
	@set -x; $(call EMULATED,lab/builds/slower.yaml); { status=$$?; set +x; } 2>/dev/null; \
	test $$status = 1 || { echo "make emulated: the slower kernel must exit with status 1, not $$status" >&2; exit $$((status + 1)); }
	@echo "Both results are right: the unchanged kernel passed, and the slower kernel failed."

# One driver of each family, judged to the instruction: equal to the last digit; the longer function is found and named.
# `smoke` has two of the four.
exact: .venv/developer
	@FOR=slow WANT=emulated tools/system-packages
	$(BIN)/pytest tests/functional/exact/test_gate.py -k "itself or receive_path" -n 2 --dist worksteal $(ARGS)

# Of 24 reported regressions, 19 are caught, and each unchanged control passes. Takes more than an hour. ARGS=--resume
# continues a run that was stopped.
regressions: .venv/developer
	@FOR=slow WANT=emulated tools/system-packages
	$(BIN)/python -m benchmarks.regressions --check $(ARGS)

report: .venv/user
	@tools/install-allure
	@$(WRITE_REPORT)

# Most tests wait for boards, switches and leases, so more tests than processors run at the same time. A board in QEMU
# needs a whole processor. Its clock counts its own instructions, so other work does not change its results.
PYTEST := $(BIN)/pytest
QUICK := not slow and not smoke and not soak
SIDE_BY_SIDE := --dist loadfile --no-loadscope-reorder

test: .venv/developer
	@FOR=test tools/system-packages
	$(PYTEST) tests/unit -m "$(QUICK)" -n 4 $(ARGS)
	$(PYTEST) tests/functional -m "$(QUICK)" -n 4 $(SIDE_BY_SIDE) $(ARGS)

# One real case of each feature.
smoke: .venv/developer
	@FOR=slow WANT=emulated tools/system-packages
	@tools/install-allure
	$(PYTEST) -m smoke -n 3 $(SIDE_BY_SIDE) $(ARGS)

# QEMU 8 or later for the exact boards of igb, unless it is unpacked already.
NEWER_QEMU = test -d "$${XDG_CACHE_HOME:-$$HOME/.cache}/pinet/exact/qemu" || $(BIN)/pinet emulated qemu || \
	echo "No newer QEMU was unpacked: tests that need it (igb) are skipped"

# Tests that take too long for CI.
slow: .venv/developer
	@FOR=slow WANT=emulated tools/system-packages
	@$(NEWER_QEMU)
	@tools/install-allure || echo "Allure is not installed: tests of its reports are skipped"
	$(PYTEST) -m "slow and not emulated" -n 4 $(SIDE_BY_SIDE) $(ARGS)
	$(PYTEST) -m "slow and emulated" -n 2 $(SIDE_BY_SIDE) $(ARGS)

# Mangles files of every format that we read, until a reader ends in a traceback or hangs. SECONDS=60 ARGS='"lab file"'
SECONDS ?= 3600
fuzz: .venv/developer
	$(BIN)/python -m tools.fuzz $(SECONDS) $(ARGS)

# Statements that need many runs. Continues where it stopped. The results are in docs/contributing/soak.json and soak.md.
# ARGS: --list, -k WORD, --again, --page.
soak: .venv/developer
	@FOR=slow WANT=emulated tools/system-packages
	@$(NEWER_QEMU)
	$(BIN)/python -m tools.soak $(ARGS)

lint: .venv/developer
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/plain-words

# The wheel with Python 3.11 to 3.14, as far as uv finds or gets them. VERSIONS="3.12 3.14" chooses.
versions: .venv/developer
	@tools/versions

bench: .venv/developer
	$(BIN)/python -m benchmarks

# What `site` shows is committed: the generated parts of pages, schemas, man pages.
docs: .venv/developer man
	$(BIN)/python -m tools.site
	$(BIN)/python -m pytest_pinet.config.schema
	$(BIN)/python -m tools.results_schema
	$(BIN)/python -m tools.causes

man: .venv/developer
	$(BIN)/python -m tools.man

# Each warning is an error: a page that no other page lists, a link without a target. Works offline.
SITE := .pinet/site
site: .venv/developer
	$(BIN)/python -m sphinx --builder html --doctree-dir .pinet/site-doctrees -E -a -n -W --keep-going -q docs $(SITE)
	@echo "The documentation is in $(SITE)/index.html"

links: .venv/developer
	$(BIN)/python -m sphinx --builder linkcheck --doctree-dir .pinet/site-doctrees -q docs .pinet/links $(ARGS)

# The tests that make a picture of docs/. The pictures of terminals are recorded from one run of the demo.
PICTURES := $(CURDIR)/.pinet/pictures
PICTURED := test_page_browser.py::test_the_picture_of_the_readme_shows_state_changes_and_results test_page_change.py \
	test_page_browser.py::test_the_picture_of_a_trend_shows_a_level_change_at_its_kernel \
	test_allure_report.py::test_allure_3_shows_values_history_steps_and_pictures_and_loads_nothing_from_elsewhere
pictures: .venv/developer
	rm -rf $(PICTURES)
	tools/install-allure
	@# A busy machine can fail a test of the virtual lab. All other pictures are made nevertheless.
	PINET_PICTURES=$(PICTURES) $(BIN)/pytest -m "smoke or slow" --durations=0 --durations-min=1 \
		$(addprefix tests/functional/report/,$(PICTURED)) $(ARGS); status=$$?; cd $(PICTURES); \
	test -e report-allure.png || ! mv report-allure-on-a-busy-machine.png report-allure.png || \
		echo "report-allure.png does not name the shaper: try again on an idle machine, or say so on the page"; \
	cp report-page.png report-trend.png report-change.png report-allure.png $(CURDIR)/docs/pictures/ || status=1; cd $(CURDIR); \
	$(BIN)/python -m tools.site.casts docs/pictures || status=1; exit $$status

clean:
	test ! -x $(BIN)/pinet || $(BIN)/pinet lab down --lab=$(LAB)
	rm -rf .venv .pinet build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

# A stamp file for each kind of environment. It is updated when the metadata change.
.venv/user: EXTRAS := virtual
.venv/developer: EXTRAS := virtual,dev
.venv/user .venv/developer: setup.cfg pyproject.toml
	@PYTHON=$(PYTHON) tools/system-packages
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[$(EXTRAS)]"
	@# A developer's environment has everything of a user's.
	@touch .venv/user $@
