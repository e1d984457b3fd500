# One word per habit. Every target first makes what it needs.
.DEFAULT_GOAL := help
.PHONY: help setup demo check sweeps check-all fuzz soak bench kernels pictures docs format

BIN := .venv/bin

help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 11

setup: ## .venv with all packages, system libraries through apt
	@.ci/setup

demo: setup ## run a real network, open the window (or write a picture without a display)
	@.ci/demo

check: setup ## format, lint, types, import contracts, documentation, tests
	@.ci/check

sweeps: setup ## what tests repeat at length, and types of tests: CI runs it after the check
	@.ci/sweeps

check-all: setup ## the check, the sweeps, and tests that take many minutes
	@.ci/check
	@.ci/sweeps --all

fuzz: setup ## damaged inputs for all readers, MINUTES=30 or INPUTS=1000000; then property tests, ROUNDS=1
	@.ci/fuzz

soak: setup ## accidents and long runs, hours; PART=kill a part, SHARE=0.1 a tenth; writes docs/reliability.md
	@.ci/soak

bench: setup ## the benchmarks, one table
	QT_QPA_PLATFORM=offscreen $(BIN)/npuviz bench

kernels: setup ## code of the kernels as a wheel brings it, for first starts in this checkout
	$(BIN)/python -m npuviz.base.kernels.shipping

pictures: setup ## every panel on every machine, in docs/panels.md and on the start page
	NPUVIZ_KERNELS=wait $(BIN)/python -m benchmarks.pictures

docs: setup ## the documentation, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

format: setup ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
