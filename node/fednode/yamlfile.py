"""YAML files that people write: read strictly, and wrong ones described by file, line and key.

Rule 1: only plain data: no tags, anchors or aliases, no key twice, one document, bounded in size and depth.
Rule 2: a scalar is the text that stands in the file, so that a label `no` or `007` stays what was written. Only where a
        number is expected is a plain decimal one, and only as the value of a key is `~`, `null` or an empty one nothing.
Rule 3: an error is one sentence that begins with file, line and key.
"""

import difflib
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import ErrorDetails

from fednode.errors import ConfigError

SIZE_LIMIT = 1024 * 1024
DEPTH_LIMIT = 16

Loc = tuple[int | str, ...]
Tree = str | int | None | list["Tree"] | dict[str, "Tree"]

_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,18}")
_SENTENCES = {
    "missing": "this key is missing",
    "bool_parsing": "must be true or false",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "greater_than": "must be more than {gt:.0f}",
    "greater_than_equal": "must be at least {ge:.0f}",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "less_than_equal": "must be at most {le:.0f}",
    "literal_error": "must be {expected}",
    "model_type": "must be a mapping of keys to values",
    "string_pattern_mismatch": "may only have lower-case letters, digits and inner dashes, at most 32",
    "string_type": "must be a text",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must have at least {min_length} entries",
    "tuple_type": "must be a list",
    "value_error": "{error}",
}


class Document:
    """A YAML file's text and nodes, with the line of each. Made from text; raises ConfigError if it breaks Rule 1."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.root = _compose(name, text)
        if self.root is not None:
            _check_keys(name, self.root, ())

    def tree(self, numbers: Collection[str] = ()) -> Tree:
        """The file as plain data; the values of the keys `numbers` are integers where they are written as such."""
        return None if self.root is None else _tree(self.root, "", frozenset(numbers))

    def line(self, loc: Loc) -> int:
        """The line, from 1, of the key or entry at `loc`, or of the nearest part around it that exists."""
        node, mark = self.root, self.root.start_mark if self.root else None
        for step in loc:
            found = _child(node, step)
            if found is None:
                break
            place, node = found
            mark = place.start_mark
        return 1 if mark is None else int(mark.line) + 1

    def fault(self, loc: Loc, what: str, hint: str = "") -> ConfigError:
        """The error that something is wrong at `loc`."""
        return ConfigError(f"{self.name} line {self.line(loc)}, {dotted(loc)}: {what}", hint)


def read_text(path: Path) -> str:
    """The text of a file of at most SIZE_LIMIT bytes of UTF-8. Raises ConfigError, and FileNotFoundError if it is missing."""
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_LIMIT + 1)
        text = data.decode()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path} line {line}: this is not UTF-8.", "Save the file as UTF-8 text.") from None
    if len(data) > SIZE_LIMIT:
        raise ConfigError(f"{path} is larger than {SIZE_LIMIT} bytes, which no such file needs.")
    return text


def dotted(loc: Loc) -> str:
    """A place in a file as people write it: `peers[1].address`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc).lstrip(".") or "the file"


def nearest(word: str, known: Collection[str], kind: str = "key") -> str:
    """What an error says of an unknown word: the known one that looks most like it, or all of them."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"unknown {kind}; did you mean {near[0]!r}?" if near else f"unknown {kind}; known are {', '.join(known)}."


def sentence(error: ErrorDetails) -> str:
    """What pydantic found wrong, in words, with the value when it is a single one."""
    template = _SENTENCES.get(error["type"])
    words = template.format_map(error.get("ctx", {})) if template else error["msg"]
    shown = error["input"]
    if error["type"] == "value_error" or not isinstance(shown, str | int | float):
        return words if words.endswith((".", "?")) else f"{words}."
    text = repr(shown)
    return f"{words}, and this is {text if len(text) <= 60 else text[:57] + '...'}."


class _Strict(yaml.SafeLoader):
    """A loader that composes nodes under Rule 1."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _RefusedError("anchors and aliases (& and *) are not allowed; write the value out or quote it", event)
        if event.tag is not None:
            raise _RefusedError("tags (!) are not allowed; leave it out or quote it", event)
        if self.depth >= DEPTH_LIMIT:
            raise _RefusedError("this is nested too deeply", event)
        self.depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        if isinstance(node, yaml.ScalarNode) and not _is_unicode(node.value):
            raise _RefusedError("a character here is not allowed", event)
        return node


class _RefusedError(Exception):
    """Rule 1 is broken in this line, from 0."""

    def __init__(self, what: str, event: Any) -> None:
        super().__init__(what)
        self.line = int(event.start_mark.line)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _compose(name: str, text: str) -> yaml.Node | None:
    loader: _Strict | None = None
    try:
        loader = _Strict(text)
        node: yaml.Node | None = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        raise _syntax(name, line, _problem(error)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position)
        raise _syntax(name, line, "a character here is not allowed in YAML") from None
    except _RefusedError as error:
        raise _syntax(name, error.line, str(error)) from None
    except (ValueError, OverflowError):
        line = loader.line if loader else 0
        raise _syntax(name, line, "an escape here stands for no character") from None
    return node


def _syntax(name: str, line: int, what: str) -> ConfigError:
    return ConfigError(f"{name} line {line + 1}: {what}.")


def _check_keys(name: str, node: yaml.Node, loc: Loc) -> None:
    """Raise ConfigError if a key is no word, or is there twice."""
    if isinstance(node, yaml.SequenceNode):
        for at, item in enumerate(node.value):
            _check_keys(name, item, (*loc, at))
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            _check_key(name, key, loc, seen)
            _check_keys(name, value, (*loc, key.value))


def _check_key(name: str, key: yaml.Node, loc: Loc, seen: set[str]) -> None:
    line = key.start_mark.line + 1
    if not isinstance(key, yaml.ScalarNode):
        raise ConfigError(f"{name} line {line}, {dotted(loc)}: a key must be a word.")
    if key.value in seen:
        raise ConfigError(f"{name} line {line}, {dotted((*loc, key.value))}: this key is there twice.")
    seen.add(key.value)


def _problem(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "this is not YAML"
    if r"'\t'" in problem:
        return "a tab can't indent YAML; use spaces"
    return "a second document begins here" if "another document" in problem else problem


def _child(node: yaml.Node | None, step: int | str) -> tuple[yaml.Node, yaml.Node] | None:
    """The node that marks where a part begins (a key, or an entry itself), and the part."""
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None


def _tree(node: yaml.Node, key: str, numbers: frozenset[str]) -> Tree:
    if isinstance(node, yaml.MappingNode):
        return {name.value: _tree(value, name.value, numbers) for name, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_tree(item, "", numbers) for item in node.value]
    text: str = node.value
    plain = isinstance(node, yaml.ScalarNode) and node.style is None
    if plain and (text == "" or (key and node.tag == "tag:yaml.org,2002:null")):
        return None
    return int(text) if plain and key in numbers and _DECIMAL.fullmatch(text) else text
