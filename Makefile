# Every target does its own set-up: git, make and Python 3.11 with venv are enough.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready

.PHONY: demo test long sim bench check test-clients man guest clean

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -m compileall -q daemon protocol  # as pip does for what it installs: a first start is not slower
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python -m tests.demo

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The order of sets is one and the same in each of these runs: what they find is not to be a matter of chance.
test long test-clients: export PYTHONHASHSEED = 0

# Reading all tests takes a process ten seconds more the first time; beside the checks nobody waits for it.
test: $(STAMP)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --collect-only -qq >/dev/null & reading=$$!; \
	$(MAKE) --no-print-directory check && { wait $$reading; true; }
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

# Those that take minutes come first: none is then left alone at the end, with nothing to be done beside it.
LONGEST := tests/net/test_transfer_many.py tests/net/test_transfer_overtaken.py tests/net/test_transfer_stages.py \
	tests/net/test_transfer_arm64.py tests/runtime/test_arm64.py tests/guest/test_build.py tests/guest/test_agent_native.py

# Only files with long tests are read: reading all of them takes a quarter of a minute in each process. Three at once
# on two processors: for a third of their time the tests of networks and daemons wait for what comes in its own time.
long: $(STAMP)
	$(BIN)/python -m pytest -n 3 --dist worksteal -q -m 'long' $$( \
		{ printf '%s\n' $(LONGEST); grep -rl 'mark\.long' tests --include='test_*.py' | sort; } | awk '!seen[$$0]++')

sim: $(STAMP)
	nice $(BIN)/python -m tests.sim holding --seeds 100000
	nice $(BIN)/python -m tests.sim handoff --seeds 20000
	nice $(BIN)/python -m tests.sim group --seeds 20000
	nice $(BIN)/python -m tests.sim sync --seeds 20000

test-clients: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m 'clients'

bench: $(STAMP)
	$(BIN)/python -m tests.bench

man: $(STAMP)
	mkdir -p share/man/man1
	$(BIN)/hhd manual > share/man/man1/hhd.1

guest: $(STAMP)
	$(BIN)/python guest/build/build.py

clean:
	rm -rf .venv guest/target share
