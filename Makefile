# Each target makes .venv and installs what it needs; stamps in .venv say what is up to date.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check

# Kept in step with build-system.requires; cmake and ninja because there is no build isolation.
BUILD_REQUIRES := "scikit-build-core>=0.10" "nanobind>=2.5" "cmake>=3.18" "ninja>=1.10"
SOURCES := pyproject.toml CMakeLists.txt README.md LICENSE \
  $(shell find cpp src -type f -not -path '*/__pycache__/*' -not -name '_core.*')

# The tests on all cores; one that has none left takes some of another's, so that all end at once.
SIDE_BY_SIDE := -n auto --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow soak lint types bench bench-full sanitize fuzz clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.package $(VENV)/.extra-none  ## cluster the docstrings of this Python installation
	$(BIN)/sparsecluster demo

test: $(VENV)/.package $(VENV)/.extra-test  ## run the quick tests and the examples in the docstrings
	$(BIN)/pytest $(SIDE_BY_SIDE) --doctest-modules --pyargs sparsecluster tests -m "not slow"

test-slow: $(VENV)/.package $(VENV)/.extra-test  ## run the tests of large products of cases
	$(BIN)/pytest $(SIDE_BY_SIDE) tests -m slow

SOAK_SECONDS ?= 600
soak: $(VENV)/.package $(VENV)/.extra-test  ## fit on Dask workers that are killed at random, for SOAK_SECONDS
	SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/pytest tests/run/test_dask_kills.py -m slow -k soak -s

lint: $(VENV)/.package $(VENV)/.extra-lint  ## check style, formatting and the directions of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

# The types of the core are generated with it: mypy finds them in the installed package.
types: $(VENV)/.package $(VENV)/.extra-lint  ## check types with mypy
	$(BIN)/mypy

bench: $(VENV)/.package $(VENV)/.extra-bench  ## time the package against its peers
	$(BIN)/python -m benchmarks

bench-full: $(VENV)/.package $(VENV)/.extra-bench  ## the same on all data sets and tasks: hours
	$(BIN)/python -m benchmarks full

sanitize: $(VENV)/.build  ## run the kernels' check driver under the sanitizers
	$(call check_under,address,address$(comma)undefined)
	$(call check_under,thread,thread)

# Debian: apt-get install clang libclang-rt-dev. New inputs stay in build/fuzz/found; a crash is written to
# build/fuzz and becomes a test.
FUZZ_SECONDS ?= 600
CLANG ?= clang++
fuzz: $(VENV)/.build  ## feed the text parsers made-up input for FUZZ_SECONDS (needs clang)
	@command -v $(CLANG) > /dev/null || { echo "make fuzz needs clang: apt-get install clang libclang-rt-dev"; exit 1; }
	$(BIN)/cmake -S . -B build/fuzz -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja \
	  -DCMAKE_CXX_COMPILER=$(CLANG) -DSPARSECLUSTER_FUZZ=ON > /dev/null
	$(BIN)/cmake --build build/fuzz --target sparsecluster_fuzz
	mkdir -p build/fuzz/found
	build/fuzz/sparsecluster_fuzz -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=10 -max_len=4096 \
	  -artifact_prefix=build/fuzz/ build/fuzz/found tests/corpus/text

clean:  ## remove .venv, builds and caches
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

comma := ,
define check_under
$(BIN)/cmake -S . -B build/sanitize-$(1) -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja \
  -DSPARSECLUSTER_SANITIZE=$(2) > /dev/null
$(BIN)/cmake --build build/sanitize-$(1)
build/sanitize-$(1)/sparsecluster_check
endef

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.build: $(VENV)/.created Makefile
	$(PIP) install $(BUILD_REQUIRES)
	@touch $@

# The package without its dependencies: an edited source rebuilds it (CMake keeps its objects in
# build/) and resolves nothing.
$(VENV)/.package: $(SOURCES) | $(VENV)/.build
	$(PIP) install --no-deps --no-build-isolation .
	@touch $@

# The dependencies, and those of an extra: the package is installed by now, so pip only reads its
# metadata. "none" is no extra.
$(VENV)/.extra-%: pyproject.toml | $(VENV)/.package
	$(PIP) install "sparsecluster$(if $(filter none,$*),,[$*])"
	@touch $@
