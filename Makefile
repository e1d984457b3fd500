# One word per habit. Every target first makes what it needs.
.DEFAULT_GOAL := help
.PHONY: help setup demo check bench docs format

BIN := .venv/bin

help: ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: ## .venv with all packages, system libraries through apt
	@.ci/setup

demo: setup ## run a real network, open the window (or write a picture without a display)
	@.ci/demo

check: setup ## everything CI runs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	QT_QPA_PLATFORM=offscreen $(BIN)/pytest -n 2 --dist loadfile

bench: setup ## the benchmarks, one table
	QT_QPA_PLATFORM=offscreen $(BIN)/npuviz bench

docs: setup ## the documentation, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

format: setup ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
