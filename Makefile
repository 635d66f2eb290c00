# Everything lives in .venv; `make install` fills it, and does so again only when pyproject.toml has changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: install demo test lint proto proto-check bench clean

install: $(VENV)/installed

demo: $(VENV)/installed
	$(BIN)/fednode demo

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest

lint: $(VENV)/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

proto: $(VENV)/installed-dev
	$(BIN)/python -m grpc_tools.protoc -Iprotos --python_out=protos --pyi_out=protos --grpc_python_out=protos protos/fednode_protos/*.proto

# The committed generated code must be what the .proto files give.
proto-check: $(VENV)/installed-dev
	rm -rf $(VENV)/protos && mkdir -p $(VENV)/protos
	$(BIN)/python -m grpc_tools.protoc -Iprotos --python_out=$(VENV)/protos --pyi_out=$(VENV)/protos --grpc_python_out=$(VENV)/protos protos/fednode_protos/*.proto
	diff -r $(VENV)/protos/fednode_protos protos/fednode_protos --exclude='*.proto' --exclude='__*'

bench: $(VENV)/installed
	$(BIN)/python examples/benchmarks/recipes.py

clean:
	rm -rf $(VENV)

$(VENV)/installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/installed-dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(VENV)/installed $@
