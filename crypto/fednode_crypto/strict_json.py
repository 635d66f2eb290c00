"""Strict JSON: one byte form for each value, and a reader that has no second opinion on what bytes mean.

Rule 1: the canonical form is RFC 8785 (JCS) over fewer values: null, booleans, integers below 2**53, strings
        of valid Unicode, arrays, and objects with ASCII keys. No floats, so no rounding and no NaN.
Rule 2: the size is checked before anything is parsed.
Rule 3: what readers of JSON disagree on is refused: duplicate keys, NaN, Infinity, floats, huge integers,
        lone surrogates, bad UTF-8, deep nesting.
"""

import json
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias

from fednode_crypto.errors import StrictJsonError

MAX_DEPTH = 32
MAX_INTEGER = 2**53 - 1

JSON: TypeAlias = "bool | int | str | Sequence[JSON] | Mapping[str, JSON] | None"


def dumps(value: JSON) -> bytes:
    """The canonical bytes of `value`.

    Raises StrictJsonError where `value` has no canonical form: a float, an integer beyond 2**53 - 1, a key
    that is not ASCII text, a lone surrogate, more than 32 nested containers, or another type.
    """
    _check(value, MAX_DEPTH)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode()


def loads(data: bytes, limit: int) -> JSON:
    """The value that `data` spells, which may be spaced and ordered freely.

    Raises StrictJsonError if `data` is over `limit` bytes or breaks one of the rules above.
    """
    if len(data) > limit:
        raise StrictJsonError(f"The JSON has {len(data)} bytes, and at most {limit} are allowed.")
    try:
        value: JSON = json.loads(
            data.decode(),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_refuse_number,
            parse_constant=_refuse_number,
        )
    except RecursionError:
        raise StrictJsonError(f"The JSON is nested deeper than {MAX_DEPTH}.") from None
    except ValueError as error:  # both bad UTF-8 and bad JSON
        raise StrictJsonError(f"The bytes are no JSON: {error}.") from None
    _check(value, MAX_DEPTH)
    return value


def _check(value: object, depth: int) -> None:
    """Raise StrictJsonError unless `value` is within Rule 1 and at most `depth` containers deep."""
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int):
        _check_integer(value)
    elif isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict | list | tuple):
        _check_container(value, depth)
    else:
        raise StrictJsonError(f"A {type(value).__name__} has no place in strict JSON.")


def _check_integer(value: int) -> None:
    if abs(value) > MAX_INTEGER:
        raise StrictJsonError("An integer is 2**53 or more in magnitude.")


def _check_text(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise StrictJsonError("A string holds a lone surrogate.") from None


def _check_container(value: dict[object, object] | list[object] | tuple[object, ...], depth: int) -> None:
    if depth == 0:
        raise StrictJsonError(f"The JSON is nested deeper than {MAX_DEPTH}.")
    if isinstance(value, dict):
        if not all(isinstance(key, str) and key.isascii() for key in value):
            raise StrictJsonError("A key is not ASCII text.")
        value = list(value.values())
    for item in value:
        _check(item, depth - 1)


def _object(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise StrictJsonError("A key is given twice in one object.")
    return result


def _integer(text: str) -> int:
    if len(text) > len(str(-MAX_INTEGER)):  # before int(), whose cost grows with the square of the length
        raise StrictJsonError("An integer is 2**53 or more in magnitude.")
    return int(text)


def _refuse_number(text: str) -> NoReturn:
    raise StrictJsonError(f"{text[:32]} is no integer, and strict JSON has no other numbers.")
