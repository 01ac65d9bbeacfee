# SPDX-License-Identifier: Apache-2.0
# `make demo` and `make test` need Python >= 3.11 with venv and headers, a C compiler and make.

PYTHON ?= python3
CC ?= cc
VENV ?= .venv
JOBS ?= 2
DATA ?= $(FSTCRF_DATA)

PIP = $(VENV)/bin/python -m pip --disable-pip-version-check --quiet
# What is developed here compiles without a warning; `make demo` takes the compiler that is there.
BUILD = PATH="$(abspath $(VENV))/bin:$$PATH" $(PIP) install --no-deps --no-build-isolation \
  --editable . --config-settings=cmake.define.FSTCRF_WERROR=ON
# Installs what the project needs, and one of its extras.
packages_of = $(VENV)/bin/python -c 'import tomllib; \
  project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
  print(*project["dependencies"], *project["optional-dependencies"]["$(1)"], sep="\n")' \
  > $(VENV)/$(1).txt && $(PIP) install --requirement $(VENV)/$(1).txt

# The tests of a file run on one worker: what they share is made once.
PYTEST = $(VENV)/bin/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
FAST = not slow and not corpus and not thorough
KERNEL_TESTS = $(wildcard tests/unit/test_kernel*.py tests/oracle/test_kernel*.py tests/unit/test_machines*.py \
  tests/oracle/test_machine*.py tests/unit/test_acyclic.py tests/oracle/test_acyclic.py \
  tests/oracle/test_feedback.py tests/oracle/test_gibbs*.py tests/oracle/test_lazy.py \
  tests/unit/test_threads.py)
C_SOURCES = $(wildcard csrc/*.c csrc/*.h)
BUILD_INPUTS = pyproject.toml csrc/CMakeLists.txt $(C_SOURCES) $(wildcard grammars/*)

.PHONY: demo test test-long check lint format kernel sanitize fuzz foreign-tests bench bench-compare coverage docs clean tools
.DELETE_ON_ERROR:

demo: $(VENV)/.installed
	$(VENV)/bin/fstcrf demo

test: $(VENV)/.kernel
	$(PYTEST) -m "not slow"

test-long: $(VENV)/.kernel
	HYPOTHESIS_PROFILE=nightly $(PYTEST)

check: lint
	HYPOTHESIS_PROFILE=check $(PYTEST) -m "$(FAST)"

lint: $(VENV)/.kernel
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/basedpyright --pythonpath $(VENV)/bin/python --level error
	$(VENV)/bin/lint-imports
	$(VENV)/bin/codespell
	$(VENV)/bin/clang-format --dry-run -Werror $(C_SOURCES)

format: $(VENV)/.dev
	$(VENV)/bin/ruff check --fix --exit-zero .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $(C_SOURCES)

# The kernel tests under AddressSanitizer and UndefinedBehaviorSanitizer.
sanitize: $(VENV)-sanitize/.kernel
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 \
	    UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc HYPOTHESIS_PROFILE=ci \
	    $(VENV)-sanitize/bin/python -m pytest --capture=sys -m "not slow" \
	        -p no:cacheprovider $(KERNEL_TESTS)

# Mutated model files of every format that is read; make fuzz FUZZ="--files 1000 --format crfsuite".
fuzz: $(VENV)/.kernel
	$(VENV)/bin/python -m tests.fuzz $(FUZZ)

# Test suites of other packages, unchanged, against the drop-ins: make foreign-tests SUITES=folder.
foreign-tests: $(VENV)/.foreign
	@test -n "$(SUITES)" || { echo "say where the suites are: make foreign-tests SUITES=folder" >&2; exit 1; }
	$(VENV)/bin/python -m tests.foreign "$(abspath $(SUITES))"

# make bench DATA=folder BENCH="--quick"; docs/measurements/benchmarks.md is made with BENCH="--full --write".
bench: $(VENV)/.kernel $(VENV)/.bench
	@test -n "$(DATA)" || { echo "say where the corpora are: make bench DATA=folder" >&2; exit 1; }
	$(VENV)/bin/python -m tests.benchmarks --data "$(abspath $(DATA))" $(BENCH)

# The quick benchmarks of an old commit and of this checkout, in turns:
# make bench-compare BASE=commit DATA=folder COMPARE="--only tagging --rounds 3".
bench-compare: $(VENV)/.kernel $(VENV)/.bench
	@test -n "$(BASE)" || { echo "say what to compare with: make bench-compare BASE=commit" >&2; exit 1; }
	@test -n "$(DATA)" || { echo "say where the corpora are: make bench-compare DATA=folder" >&2; exit 1; }
	$(VENV)/bin/python -m tests.benchmarks.compare "$(BASE)" --data "$(abspath $(DATA))" $(COMPARE)

# The site: the pages under docs/ and the Python interface, from the docstrings. A warning is an error.
docs: $(VENV)/.kernel
	$(VENV)/bin/sphinx-build -q -W --keep-going -d build/doctrees docs build/docs
	@echo "open build/docs/index.html"

coverage: $(VENV)/.kernel
	$(PYTEST) -m "not slow" --cov --cov-report=term

kernel: $(VENV)/.dev
	$(BUILD)
	@touch $(VENV)/.kernel $(VENV)/.installed

clean:
	rm -rf build dist $(VENV) $(VENV)-sanitize .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	    .import_linter_cache .coverage docs/reference/api fstcrf/_kernel.*.so
	find fstcrf tests -name __pycache__ -type d -prune -exec rm -rf {} +

# --- Virtual environments ------------------------------------------------------------------------
# Installed editable: changes of Python files count at once, changes of C files through the stamps.

$(VENV)/bin/python: | tools
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BUILD_INPUTS) | $(VENV)/bin/python
	$(PIP) install --editable .
	@touch $@

# The packages alone; fstcrf comes with the kernel, which is built once for tests and linters.
$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(call packages_of,dev)
	@touch $@

$(VENV)/.kernel: $(VENV)/.dev $(BUILD_INPUTS)
	$(BUILD)
	@touch $@ $(VENV)/.installed

$(VENV)/.foreign: pyproject.toml | $(VENV)/.kernel
	$(call packages_of,foreign)
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/.kernel
	$(call packages_of,bench)
	@touch $@

# Another kernel, the same packages: those of the first environment are put on its path.
$(VENV)-sanitize/.kernel: $(VENV)/.dev $(BUILD_INPUTS)
	$(PYTHON) -m venv --clear $(VENV)-sanitize
	$(VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	    > "$$($(VENV)-sanitize/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/main.pth"
	PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)-sanitize/bin/python -m pip --quiet \
	    --disable-pip-version-check install --no-deps --no-build-isolation --editable . \
	    --config-settings=build-dir=build/sanitize \
	    --config-settings=cmake.define.FSTCRF_SANITIZE=ON
	@touch $@

# One line that names the Debian packages of whatever is missing.
tools:
	@missing=; \
	if ! command -v $(PYTHON) >/dev/null; then missing="python3 python3-venv python3-dev"; \
	elif ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
	    echo "fstcrf needs Python >= 3.11, $(PYTHON) is $$($(PYTHON) -V); try: make PYTHON=python3.11" >&2; \
	    exit 1; \
	else \
	    $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing python3-venv"; \
	    $(PYTHON) -c 'import os, sys, sysconfig as s; \
	sys.exit(not os.path.exists(os.path.join(s.get_path("include"), "Python.h")))' \
	        || missing="$$missing python3-dev"; \
	fi; \
	if ! command -v $(CC) >/dev/null; then missing="$$missing gcc libc6-dev"; \
	elif ! printf '#include <math.h>\nint main(void) { return 0; }\n' | \
	    $(CC) -x c -o /dev/null - 2>/dev/null; then missing="$$missing libc6-dev"; fi; \
	test -z "$$missing" || \
	    { echo "fstcrf cannot be built yet; missing Debian packages: apt-get install" $$missing >&2; exit 1; }
