"""The text of peers.yaml, changed peer by peer: pure functions from text to text, and the file's safe replacement.

Rule 1: only lines of the peer that is added or removed change; comments that are indented deeper than its dash are its own.
Rule 2: an empty list is written as `[]`.
Rule 3: what can't be changed line by line, such as a list in brackets, is refused.
"""

import contextlib
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from fednode import disk
from fednode.errors import ConfigError, StorageError
from fednode.yamlfile import Document

_INDENT = 2


def appended(document: Document, fields: Sequence[str]) -> str:
    """The text with one more peer, whose lines are `fields`, at the end of the list. Raises ConfigError (Rule 3)."""
    text, root = document.text, _root(document)
    found = _peers(root)
    if found is None:
        lines = ["peers:", *_item(fields, _INDENT)]
        return _inserted(text, _end(text, root, 0), lines)
    key, value = found
    if _is_block_list(value):
        column = value.start_mark.column
        return _inserted(text, _end(text, value, column), _item(fields, column))
    if isinstance(value, yaml.SequenceNode) and value.value:
        raise _refusal(document, "the list of peers is in brackets")
    colon = _colon(document, key, value)
    text = text[:colon] + text[value.end_mark.index :]
    column = key.start_mark.column
    at = _past_comments(text, _next_line(text, colon), column)
    return _inserted(text, at, _item(fields, column + _INDENT))


def without(document: Document, position: int) -> str:
    """The text without the peer at `position`. Raises ConfigError (Rule 3)."""
    text = document.text
    found = _peers(_root(document))
    if found is None or not _is_block_list(found[1]):
        raise _refusal(document, "the list of peers is in brackets")
    key, value = found
    item, column = value.value[position], value.start_mark.column
    dashes = list(re.compile(rf"^ {{{column}}}-\s", re.MULTILINE).finditer(text, 0, item.start_mark.index))
    if not dashes:
        raise _refusal(document, "the peer's dash does not begin its line")
    shorter = _cut(text, dashes[-1].start(), _end(text, item, column))
    if len(value.value) > 1:
        return shorter
    colon = _colon(document, key, value)
    return f"{shorter[:colon]} []{shorter[colon:]}"


@contextlib.contextmanager
def alone(path: Path) -> Iterator[Path]:
    """The file itself (behind links), while no other process edits a file of its folder."""
    file = path.resolve()
    try:
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(f"{path} can't be edited: {error.strerror}.") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(folder)


def replace(file: Path, text: str) -> None:
    """Put `text` in the place of the file, whole or not at all, with its mode. Raises StorageError."""
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        disk.write_new(temporary, text.encode())
        temporary.chmod(stat.S_IMODE(file.stat().st_mode))
        temporary.replace(file)
        disk.sync(file.parent)
    except OSError as error:
        raise StorageError(f"{file} can't be written: {error.strerror}.", "It is unchanged.") from error
    finally:
        temporary.unlink(missing_ok=True)


def _root(document: Document) -> yaml.MappingNode:
    if not isinstance(document.root, yaml.MappingNode) or document.root.flow_style:
        raise _refusal(document, "it is written in braces")
    return document.root


def _peers(root: yaml.MappingNode) -> tuple[yaml.Node, yaml.Node] | None:
    return next(((key, value) for key, value in root.value if key.value == "peers"), None)


def _is_block_list(node: yaml.Node) -> bool:
    return isinstance(node, yaml.SequenceNode) and not node.flow_style


def _refusal(document: Document, why: str) -> ConfigError:
    return ConfigError(
        f"{document.name} can't be edited by this command, because {why}.",
        "Edit it by hand, or write each peer with a dash on lines of its own.",
    )


def _item(fields: Sequence[str], column: int) -> list[str]:
    return [" " * column + ("  " if at else "- ") + field for at, field in enumerate(fields)]


def _colon(document: Document, key: yaml.Node, value: yaml.Node) -> int:
    """Where the text after the colon of `peers:` begins."""
    match = re.compile(r"[ \t]*:").match(document.text, key.end_mark.index)
    same_line = value.start_mark.line == key.start_mark.line
    if match is None or not (same_line or _is_block_list(value)):
        raise _refusal(document, "the list of peers does not begin in the line of its key")
    return match.end()


def _end(text: str, node: yaml.Node, column: int) -> int:
    """Where the line after a node begins, and after the comments that are its own (Rule 1)."""
    return _past_comments(text, _next_line(text, _last(text, node)), column)


def _last(text: str, node: yaml.Node) -> int:
    """Where the content of a node ends; the parser's own mark for a block is where the next thing begins."""
    if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        return _last(text, last[1] if isinstance(node, yaml.MappingNode) else last)
    return len(text[: node.end_mark.index].rstrip())


def _next_line(text: str, at: int) -> int:
    return text.find("\n", at) + 1 or len(text)


def _past_comments(text: str, at: int, column: int) -> int:
    comment = re.compile(rf" {{{column + 1},}}#.*\n?")
    while match := comment.match(text, at):
        at = match.end()
    return at


def _inserted(text: str, at: int, lines: Sequence[str]) -> str:
    """The text with lines put in before `at`, the beginning of a line or the end of the file."""
    ending = "\r\n" if "\r\n" in text else "\n"
    block = ending.join(lines)
    if at == len(text) and not text.endswith("\n"):
        return text + ending + block
    return text[:at] + block + ending + text[at:]


def _cut(text: str, start: int, end: int) -> str:
    """The text without whole lines; a file that did not end with a line's end still does not."""
    if end == len(text) and not text.endswith("\n"):
        return text[:start].removesuffix("\n").removesuffix("\r")
    return text[:start] + text[end:]
