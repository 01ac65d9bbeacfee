# SPDX-License-Identifier: Apache-2.0
# `make demo` and `make test` need Python >= 3.11 with venv and headers, a C compiler and make.

PYTHON ?= python3
CC ?= cc
VENV ?= .venv
JOBS ?= 2
DATA ?= $(FSTCRF_DATA)
# Bytecode is kept: pytest then need not rewrite the asserts of each test file anew, and the processes that
# tests start need not compile fstcrf.
export PYTHONDONTWRITEBYTECODE :=

PIP = $(VENV)/bin/python -m pip --disable-pip-version-check --quiet
# What is developed here compiles without a warning; `make demo` takes the compiler that is there.
BUILD = PATH="$(abspath $(VENV))/bin:$$PATH" $(PIP) install --no-deps --no-build-isolation \
  --editable . --config-settings=cmake.define.FSTCRF_WERROR=ON
# Installs the dependencies of the project and one of its dependency groups.
packages_of = $(VENV)/bin/python -c 'import tomllib; \
  table = tomllib.load(open("pyproject.toml", "rb")); \
  print(*table["project"]["dependencies"], *table["dependency-groups"]["$(1)"], sep="\n")' \
  > $(VENV)/$(1).txt && $(PIP) install --requirement $(VENV)/$(1).txt

# The tests of a file run on one worker: what they share is made once.
PYTEST = $(VENV)/bin/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
FAST = not slow and not corpus and not thorough
# Another index of packages for `make test-extras`: one that has PyTorch without CUDA saves gigabytes.
EXTRAS_INDEX ?=
KERNEL_TESTS = $(wildcard tests/unit/test_kernel*.py tests/oracle/test_kernel*.py tests/unit/test_machines*.py \
  tests/oracle/test_machine*.py tests/unit/test_acyclic.py tests/oracle/test_acyclic.py \
  tests/oracle/test_feedback.py tests/oracle/test_gibbs*.py tests/oracle/test_lazy.py \
  tests/oracle/test_emissions.py tests/unit/test_emissions.py tests/unit/test_threads.py)
C_SOURCES = $(wildcard csrc/*.c csrc/*.h tests/fuzz/entries/*.c tests/fuzz/entries/*.h)
BUILD_INPUTS = pyproject.toml csrc/CMakeLists.txt csrc/contract.py $(wildcard csrc/*.c csrc/*.h csrc/api/*.h grammars/*)

.PHONY: demo test test-long test-extras test-page test-without-pynini wheel check lint format kernel sanitize sanitize-threads fuzz test-arm test-faults foreign-tests bench bench-compare evidence coverage docs clean tools
.DELETE_ON_ERROR:

demo: $(VENV)/.installed
	$(VENV)/bin/fstcrf demo

test: $(VENV)/.kernel
	$(PYTEST) -m "not slow"

test-long: $(VENV)/.kernel
	HYPOTHESIS_PROFILE=nightly $(PYTEST)

# The quick tests where pynini cannot be imported: whoever has another platform has no other fstcrf.
test-without-pynini: $(VENV)/.kernel
	HYPOTHESIS_PROFILE=check PYTHONPATH="$(abspath tests/absent)" $(PYTEST) -m "$(FAST)"

# A wheel for this machine, built of the source distribution, its tag and its binary interface checked, in build/wheels.
wheel: $(VENV)/.packaging
	rm -rf build/wheels
	$(VENV)/bin/python -m build --sdist --no-isolation --outdir build/wheels/plain . >/dev/null
	PATH="$(abspath $(VENV))/bin:$$PATH" $(PIP) wheel --no-deps --no-build-isolation \
	    --wheel-dir build/wheels/plain build/wheels/plain/*.tar.gz
	PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)/bin/auditwheel repair --wheel-dir build/wheels \
	    build/wheels/plain/*.whl 2>/dev/null
	$(VENV)/bin/abi3audit --strict build/wheels/*.whl
	$(VENV)/bin/cibuildwheel --print-build-identifiers --platform linux . >/dev/null
	$(VENV)/bin/zizmor --offline --quiet .github
	$(VENV)/bin/python -m tests.environments build/wheels/*.whl

# What needs PyTorch, JAX, spaCy, Arrow, ...: in an environment of its own, which must be downloaded.
test-extras: $(VENV)-extras/.kernel
	FSTCRF_EXTRAS=1 $(VENV)-extras/bin/python -m pytest -p no:cacheprovider tests/extras

# The page of `fstcrf inspect` in a browser: needs chromium and chromedriver on the path.
test-page: $(VENV)-page/.installed
	FSTCRF_EXTRAS=1 $(VENV)-page/bin/python -m pytest -p no:cacheprovider tests/extras/test_inspector_page.py

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
	        -p no:cacheprovider -n $(JOBS) --dist loadfile --no-loadscope-reorder $(KERNEL_TESTS)

# Threads under ThreadSanitizer: THREADS="-m 'not slow'" for the long ones, too.
THREADS ?= -m "not slow and not thorough"
sanitize-threads: $(VENV)-threads/.kernel
	LD_PRELOAD="$$($(CC) -print-file-name=libtsan.so)" \
	    TSAN_OPTIONS="suppressions=$(abspath tests/threads.supp) exitcode=66" HYPOTHESIS_PROFILE=ci \
	    $(VENV)-threads/bin/python -m pytest --capture=sys -p no:cacheprovider $(THREADS) \
	        tests/unit/test_threads.py

# Every reader and the kernel, by an engine that sees which code is reached, under sanitizers: what it
# finds and how many inputs there were is kept in build/fuzz; FUZZ="--target journal --turn 300".
SECONDS ?= 600
fuzz: $(VENV)-sanitize/.fuzz
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 FSTCRF_KERNEL=base \
	    PYTHONMALLOC=malloc $(VENV)-sanitize/bin/python -m tests.fuzz --seconds $(SECONDS) $(FUZZ)

# The kernel as it is compiled for ARM, under QEMU, with random inputs of tests/fuzz/entries: answers that must hold.
# On Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user.
ARM_CC ?= aarch64-linux-gnu-gcc
ARM_RUN ?= qemu-aarch64
INPUTS ?= 2000
test-arm:
	mkdir -p build/arm
	$(PYTHON) csrc/contract.py build/arm
	$(ARM_CC) -std=c11 -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math -static -Icsrc -Ibuild/arm \
	    -DFC_TARGET=base -DFSTCRF_ALONE -o build/arm/entries $(wildcard tests/fuzz/entries/*.c) \
	    $(filter-out csrc/status.c csrc/coverage.c csrc/kernel.csrc.c,$(wildcard csrc/*.c)) -lm
	for entry in $$($(PYTHON) -c 'from tests.fuzz.entries import ENTRIES; print(*ENTRIES.values())'); do \
	    FSTCRF_ENTRY=$$entry $(ARM_RUN) build/arm/entries $(INPUTS) || exit 1; done

# Disks that fail, kills at random, lost power, with all that writes: a step or a moment after the other. Hours;
# make test-faults FAULTS="kills train --most 200 --record build/kills.jsonl" goes on where it was stopped.
test-faults: $(VENV)/.kernel
	$(if $(FAULTS),$(VENV)/bin/python -m tests.faults $(FAULTS),for mode in fail die power full read-only kills; do \
	    $(VENV)/bin/python -m tests.faults $$mode || exit 1; done)

# Test suites of other packages, unchanged, against the drop-ins: make foreign-tests SUITES=folder.
foreign-tests: $(VENV)/.foreign
	@test -n "$(SUITES)" || { echo "say where the suites are: make foreign-tests SUITES=folder" >&2; exit 1; }
	$(VENV)/bin/python -m tests.foreign "$(abspath $(SUITES))"

# make bench DATA=folder BENCH="--quick"; docs/measurements/benchmarks.md is made with BENCH="--full --write".
bench: $(VENV)/.kernel $(VENV)/.bench
	@test -n "$(DATA)" || { echo "say where the corpora are: make bench DATA=folder" >&2; exit 1; }
	$(VENV)/bin/python -m tests.benchmarks --data "$(abspath $(DATA))" $(BENCH)

# The quick benchmarks of an old commit and of this checkout, in turns; without BASE, of the baseline that
# tests/benchmarks/compare.py names: make bench-compare BASE=commit DATA=folder COMPARE="--only tagging --rounds 3".
bench-compare: $(VENV)/.kernel $(VENV)/.bench
	@test -n "$(DATA)" || { echo "say where the corpora are: make bench-compare DATA=folder" >&2; exit 1; }
	$(VENV)/bin/python -m tests.benchmarks.compare $(BASE) --data "$(abspath $(DATA))" $(COMPARE)

# Every recipe in full and its page, made from a clean commit: many hours of a processor (results.md has
# them), kept in build/evidence as they go; the same command goes on. EVIDENCE="consistency mce" for some;
# `neural` needs PyTorch, `words` fugashi and unidic-lite: the environment of `make test-extras` has them and is taken
# where it was built, or WITH=python names another one; where they are not there, these two say so, the others run,
# and the target ends with an error. JOBS processes share a recipe. `usaddress` has no page: it quotes its corpus.
WITH ?= $(if $(wildcard $(VENV)-extras/.kernel),$(VENV)-extras/bin/python,$(VENV)/bin/python)
evidence: $(VENV)/.kernel
	@test -n "$(DATA)" || { echo "say where the corpora are: make evidence DATA=folder" >&2; exit 1; }
	$(WITH) docs/evidence.py --data "$(abspath $(DATA))" --jobs $(JOBS) $(EVIDENCE)

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
	rm -rf build dist $(VENV) $(VENV)-sanitize $(VENV)-threads $(VENV)-extras $(VENV)-page .mypy_cache .ruff_cache .pytest_cache .hypothesis \
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

$(VENV)/.packaging: pyproject.toml | $(VENV)/.dev
	$(call packages_of,packaging)
	@touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/.kernel
	$(call packages_of,bench)
	@touch $@

# Another kernel, the same packages: those of the first environment are put on its path.
define other_kernel
	$(PYTHON) -m venv --clear $(VENV)-$(1)
	$(VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	    > "$$($(VENV)-$(1)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/main.pth"
	PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)-$(1)/bin/python -m pip --quiet \
	    --disable-pip-version-check install --no-deps --no-build-isolation --editable . \
	    --config-settings=build-dir=build/$(1) \
	    --config-settings=cmake.define.FSTCRF_SANITIZE=$(2)
endef

$(VENV)-sanitize/.kernel: $(VENV)/.dev $(BUILD_INPUTS)
	$(call other_kernel,sanitize,address)
	@touch $@

$(VENV)-threads/.kernel: $(VENV)/.dev $(BUILD_INPUTS)
	$(call other_kernel,threads,thread)
	@touch $@

$(VENV)-sanitize/.fuzz: pyproject.toml $(VENV)-sanitize/.kernel
	$(VENV)-sanitize/bin/python -m pip --quiet --disable-pip-version-check install "$$($(VENV)/bin/python \
	    -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb")) \
	["dependency-groups"]["fuzz"])')"
	@touch $@

# The first environment and Selenium, which linters are to do without.
$(VENV)-page/.installed: $(VENV)/.kernel
	$(PYTHON) -m venv --clear $(VENV)-page
	$(VENV)/bin/python -c 'import sysconfig; \
	  print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	    > "$$($(VENV)-page/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/main.pth"
	$(VENV)-page/bin/python -m pip --disable-pip-version-check --quiet install \
	    "$$($(VENV)/bin/python -c 'import tomllib; \
	  names = tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["extras"]; \
	  print(next(name for name in names if name.startswith("selenium")))')"
	@touch $@

# The packages of the extras, pinned, and the kernel; it says why where they cannot be had.
$(VENV)-extras/.kernel: $(VENV)/.kernel
	$(PYTHON) -m venv $(VENV)-extras
	$(VENV)/bin/python -c 'import tomllib; \
	  table = tomllib.load(open("pyproject.toml", "rb")); \
	  print(*table["project"]["dependencies"], *table["dependency-groups"]["extras"], sep="\n")' \
	  > $(VENV)-extras/extras.txt
	$(VENV)-extras/bin/python -m pip --disable-pip-version-check --quiet install \
	    $(if $(EXTRAS_INDEX),--extra-index-url $(EXTRAS_INDEX)) --requirement $(VENV)-extras/extras.txt \
	    || { echo "make test-extras: the packages of $(VENV)-extras/extras.txt cannot be installed, as pip" \
	    "says above; it needs about 4 GB and a connection to PyPI" >&2; exit 1; }
	$(VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	    > "$$($(VENV)-extras/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/main.pth"
	PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)-extras/bin/python -m pip --quiet \
	    --disable-pip-version-check install --no-deps --no-build-isolation --editable . \
	    --config-settings=build-dir=build/extras
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
