# Everything is installed into .venv, with uv where it exists, else with venv and pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)

ifdef UV
  MAKE_VENV = $(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
  INSTALL = $(UV) pip install --quiet --python $(BIN)/python
else
  # Dependency groups need pip 25.1.
  MAKE_VENV = $(PYTHON) -m venv $(VENV) && $(INSTALL) 'pip>=25.1'
  INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

CORES := $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
# One thread for each worker: threads of more workers than cores would only get in each other's way. Processes that tests
# start read the bytecode that the first has written.
PYTEST = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q

.PHONY: demo check unit-tests test thorough mutation strikes audit lint golden ledger bench bench-command-line bench-faults bench-speed bench-growth \
  bench-binning bench-arena bench-calarena bench-calibrated bench-live bench-paper bench-multiclass bench-coverage bench-guarantees bench-levels bench-oob bench-shift bench-monitor bench-expected bench-forests bench-segments bench-segment-test bench-grouped docs links figures tutorial \
  faults picture session dist smoke oldest pages clean

demo: $(VENV)/.core
	$(BIN)/python -m calspline.demo

# The answer while you work: no JVM, no browser, no other processes. One core would wait for mypy.
check: $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs=2 lint unit-tests
unit-tests: $(VENV)/.dev
	HYPOTHESIS_PROFILE=check $(PYTEST) -n $(CORES) -m 'not (engine or process or browser or site or surface or slow or thorough)'

# All but the long runs.
test: $(VENV)/.dev lint
	$(PYTEST) -n $(CORES) -m 'not thorough' --cov --cov-report=
	$(BIN)/python -m coverage report --precision=1 --fail-under=98
	$(BIN)/python -m coverage report --precision=1 --fail-under=99 \
		--include='src/calspline/fitting/*,src/calspline/maps/curve.py,src/calspline/histograms/histogram.py,src/calspline/histograms/grid.py,src/calspline/transforms.py' >/dev/null

# The long runs, within three hours on two cores: simulations, browsers, builds, examples and the combinations of
# parameters that make test leaves out, 1,000 examples of every property, 600 nasty data sets, 100,000 hostile
# models and 1,000 tables of each format, thirty signals for every command.
thorough: $(VENV)/.dev
	CALSPLINE_STRIKES=30 $(BIN)/python -m pytest -q tests/crash
	$(PYTEST) -n $(CORES) -m thorough --deselect tests/crash
	HYPOTHESIS_PROFILE=thorough $(PYTEST) -n $(CORES) tests/properties tests/fuzz
	$(BIN)/python -m benchmarks.stress
	$(BIN)/python -m benchmarks.fuzz --models 100000 --tables 1000

# Hours for all; a sample with, for example, SAMPLE=100.
mutation: $(VENV)/.dev
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.mutation --sample $(or $(SAMPLE),0)

strikes: $(VENV)/.dev
	CALSPLINE_STRIKES=100 $(BIN)/python -m pytest -q tests/crash

# Asks a service on the network, so it is no part of the tests.
audit: $(VENV)/.dev
	$(INSTALL) pip-audit
	$(BIN)/python -m pip_audit --skip-editable

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Only where results or messages are meant to change: the commit says why. One area: make golden AREA=fits
golden: $(VENV)/.dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -W error -m tests.golden.regenerate $(AREA)

# Stored and present ratios of times, ours by an alternative, side by side; LEDGER=--write stores the present ones.
ledger: $(VENV)/.bench
	$(BIN)/python -m benchmarks.ledger $(LEDGER)

bench: bench-speed bench-arena bench-multiclass

bench-command-line: $(VENV)/.bench
	$(BIN)/python -m benchmarks.command_line

bench-faults: $(VENV)/.bench
	$(BIN)/python -m benchmarks.faults

bench-speed: $(VENV)/.bench
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.speed

bench-growth: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.growth

bench-binning: $(VENV)/.core
	$(BIN)/python -m benchmarks.binning

bench-arena: $(VENV)/.bench
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.arena
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.arena --calibrated

bench-calibrated: $(VENV)/.bench
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.arena --calibrated

bench-calarena: $(VENV)/.bench
	$(BIN)/python -m benchmarks.calarena

bench-live: $(VENV)/.bench
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.arena --live

bench-paper: $(VENV)/.bench
	$(BIN)/python -m benchmarks.paper.adult
	$(BIN)/python -m benchmarks.paper.mortality

bench-multiclass: $(VENV)/.bench
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.multiclass

bench-coverage: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.coverage
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.metrics

bench-guarantees: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.guarantees

bench-levels: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.levels

bench-shift bench-monitor bench-expected: bench-%: $(VENV)/.bench
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.$*

bench-forests: $(VENV)/.bench
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.forests

bench-grouped: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.grouped

bench-segments: $(VENV)/.bench
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.segments

bench-segment-test: $(VENV)/.bench
	$(INSTALL) --no-deps mcgrad psutil
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.segment_test

bench-oob: $(VENV)/.bench
	$(BIN)/python -m benchmarks.oob

docs: $(VENV)/.dev
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --jobs $(CORES) -c docs -d build/doctrees . site
	@echo "The site is in site/: open site/index.html"

# Which links to other sites are broken; it asks the network.
links: $(VENV)/.dev
	$(BIN)/python -m sphinx --quiet --builder linkcheck -c docs -d build/doctrees . build/links

figures: $(VENV)/.dev
	$(BIN)/python -m docs.figures

tutorial: $(VENV)/.dev
	$(BIN)/python -m docs.record_tutorial

faults: $(VENV)/.dev
	$(BIN)/python -m docs.fault_page

picture: $(VENV)/.dev
	$(BIN)/python docs/picture.py

session: $(VENV)/.dev
	$(BIN)/python docs/record_session.py

dist: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build --no-isolation

# An empty environment of any interpreter: make smoke PYTHON=python3.13
smoke: dist
	$(PYTHON) -m venv --clear build/smoke
	build/smoke/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	build/smoke/bin/python -I tests/packaging/smoke.py

# The lowest versions that pyproject.toml allows; their wheels end with Python 3.12. What these import is their own affair,
# and so are sockets that Spark 3.5 leaves open.
oldest:
	$(PYTHON) -m venv --clear build/oldest
	build/oldest/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	build/oldest/bin/python -m pip install --quiet --disable-pip-version-check -c tests/packaging/oldest.txt -e . --group test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 build/oldest/bin/python -m pytest -q -p no:cacheprovider \
		-W ignore::pytest.PytestUnraisableExceptionWarning tests/fitting tests/multiclass tests/calibrators tests/crossfit \
		tests/evaluation tests/engines/test_fit_frame.py \
		$(filter-out $(addprefix tests/test_,classifier_as_sklearn.py imports.py pages.py),$(wildcard tests/test_*.py))

pages: $(VENV)/.dev
	$(BIN)/python -m docs.record_pages

$(VENV)/.core: pyproject.toml
	$(MAKE_VENV)
	$(INSTALL) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(INSTALL) -e . --group dev
	@touch $@

$(VENV)/.bench: $(VENV)/.core
	$(INSTALL) -e . --group bench
	@touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage site calspline-demo.html
