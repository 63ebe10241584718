# Two commands do everything: `make demo` and `make test`. Both make .venv themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint types imports unit package docs format clean

$(STAMP): pyproject.toml constraints.txt requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python scripts/lock.py install
	$(BIN)/python scripts/install_torch.py -c constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py

# Types and package keep one core busy, and tests often wait: they run side by side. The tests show
# their progress; what the other two printed follows in one piece.
test: lint imports
	@$(MAKE) --no-print-directory types package >$(VENV)/gates.log 2>&1 & gates=$$!; \
	$(MAKE) --no-print-directory unit; failed=$$?; \
	wait $$gates || failed=$$?; cat $(VENV)/gates.log; exit $$failed

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/zizmor --offline --no-progress --quiet --strict-collection .github/workflows
	@if [ -x $(BIN)/hadolint ]; then $(BIN)/hadolint Dockerfile Dockerfile.cuda; \
	else echo "hadolint skipped: it is not packaged for this machine"; fi

types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/mypy tests/typing
	@if $(BIN)/pyright --version >/dev/null 2>&1; \
	then $(BIN)/pyright -p pyproject.toml --pythonpath $(BIN)/python; \
	else echo "pyright skipped: Node.js does not run here"; fi

imports: $(STAMP)
	$(BIN)/lint-imports

unit: $(STAMP)
	$(BIN)/pytest -n 2 --dist worksteal

package: $(STAMP)
	$(BIN)/python scripts/check_package.py --link

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) demo site
