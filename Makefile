# `make` lists the targets. Paths are relative, so a checkout may live under a path with spaces.

VENV := .venv
PY := $(VENV)/bin/python

.DEFAULT_GOAL := help
.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | awk -F '\t' '{ printf "  make %-10s %s\n", $$1, $$2 }'
