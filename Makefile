# Everything is installed into .venv, with uv where it exists, else with venv and pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)

ifdef UV
  MAKE_VENV = $(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
  INSTALL = $(UV) pip install --quiet --python $(BIN)/python
else
  MAKE_VENV = $(PYTHON) -m venv $(VENV)
  INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

.PHONY: demo test lint bench-speed bench-arena bench-binning bench-multiclass bench-coverage bench-live bench-oob bench-paper bench-command-line picture session dist smoke oldest clean

demo: $(VENV)/.core
	$(BIN)/python -m calspline.demo

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest -q -n auto --dist loadgroup --cov --cov-report=
	$(BIN)/python -m coverage report --precision=1
	$(BIN)/python -m coverage report --precision=1 --fail-under=100 \
		--include='src/calspline/_spline/*,src/calspline/curve.py,src/calspline/histogram.py,src/calspline/_grid.py,src/calspline/transforms.py' >/dev/null

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench-speed: $(VENV)/.bench
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.speed

bench-binning: $(VENV)/.core
	$(BIN)/python -m benchmarks.binning

bench-arena: $(VENV)/.bench
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.arena

bench-live: $(VENV)/.bench
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.arena --live

bench-paper: $(VENV)/.bench
	$(BIN)/python -m benchmarks.paper.adult
	$(BIN)/python -m benchmarks.paper.mortality

bench-multiclass: $(VENV)/.bench
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.multiclass

bench-coverage: $(VENV)/.core
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.coverage

bench-oob: $(VENV)/.bench
	$(BIN)/python -m benchmarks.oob

bench-command-line: $(VENV)/.bench
	$(BIN)/python -m benchmarks.command_line

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

# The lowest versions that pyproject.toml allows; their wheels end with Python 3.12.
oldest:
	$(PYTHON) -m venv --clear build/oldest
	build/oldest/bin/python -m pip install --quiet --disable-pip-version-check -c tests/packaging/oldest.txt -e '.[test]'
	build/oldest/bin/python -m pytest -q -p no:cacheprovider tests/spline tests/structured tests/calibrators tests/crossfit \
		tests/evaluation tests/frames/test_fit_frame.py \
		$(filter-out tests/test_classifier_as_sklearn.py tests/test_datasets.py tests/test_pages.py,$(wildcard tests/test_*.py))

$(VENV)/.core: pyproject.toml
	$(MAKE_VENV)
	$(INSTALL) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(INSTALL) -e '.[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.core
	$(INSTALL) -e '.[bench]'
	@touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage calspline-demo.html
