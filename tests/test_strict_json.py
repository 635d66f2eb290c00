import json

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from fednode_crypto.errors import StrictJsonError
from fednode_crypto.strict_json import dumps, loads

LIMIT = 10_000

ascii_keys = st.text(st.characters(max_codepoint=127), max_size=8)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ascii_keys, inner, max_size=4), max_leaves=12
)


@given(values)
@settings(max_examples=200, deadline=None)
def test_canonical_bytes_are_those_of_rfc_8785_and_read_back(value: object) -> None:
    data = dumps(value)  # type: ignore[arg-type]
    assert data == rfc8785.dumps(value)  # type: ignore[arg-type]
    assert loads(data, LIMIT) == value


def test_keys_are_sorted_and_nothing_is_spaced() -> None:
    assert dumps({"b": [1, True, None], "a": {"z": "", "y": -3}}) == b'{"a":{"y":-3,"z":""},"b":[1,true,null]}'


def test_tuples_are_arrays() -> None:
    assert dumps((1, (2, 3))) == b"[1,[2,3]]"


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        float("nan"),
        2**53,
        -(2**53),
        b"x",
        {1: "x"},
        {"é": 1},
        {"a": [{"b": 0.5}]},
        {1, 2},
        "\ud800",
        {"a": "\udfff"},
        object(),
    ],
)
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(StrictJsonError):
        dumps(value)  # type: ignore[arg-type]


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(StrictJsonError, match="nested deeper"):
        dumps(endless)  # type: ignore[arg-type]


def test_spacing_and_order_are_free_when_reading() -> None:
    assert loads(b' { "b" : [ 1 , true ] ,\n "a" : null } ', LIMIT) == {"a": None, "b": [1, True]}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a":1,"a":1}', "twice"),
        (b'[{"a":{"b":1,"\\u0062":2}}]', "twice"),
        (b"NaN", "NaN"),
        (b"[Infinity]", "Infinity"),
        (b"-Infinity", "Infinity"),
        (b"1.0", "no integer"),
        (b"1e2", "no integer"),
        (b"1e400", "no integer"),
        (b"-0.0", "no integer"),
        (b"9007199254740992", "2\\*\\*53"),
        (b"-9007199254740992", "2\\*\\*53"),
        (b"1" * 9000, "2\\*\\*53"),
        (b'{"a":"\xff"}', "no JSON"),
        (b'"\xed\xa0\x80"', "no JSON"),  # a surrogate in UTF-8
        (b'"\xc0\xaf"', "no JSON"),  # an overlong slash
        (b'"\\ud800"', "surrogate"),
        (b'{"\\u00e9":1}', "ASCII"),
        (b"\xef\xbb\xbf1", "no JSON"),
        (b'"\n"', "no JSON"),
        (b"01", "no JSON"),
        (b"[1,]", "no JSON"),
        (b"1 2", "no JSON"),
        (b"{'a':1}", "no JSON"),
        (b"", "no JSON"),
    ],
)
def test_what_readers_of_json_disagree_on_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(StrictJsonError, match=reason):
        loads(data, LIMIT)


def test_the_largest_integers_are_read() -> None:
    assert loads(b"[9007199254740991,-9007199254740991]", LIMIT) == [2**53 - 1, -(2**53) + 1]


def test_the_limit_counts_bytes_and_comes_before_parsing() -> None:
    assert loads(b'"abc"', 5) == "abc"
    with pytest.raises(StrictJsonError, match="at most 4"):
        loads(b'"abc"', 4)
    with pytest.raises(StrictJsonError, match="at most 4"):
        loads(b"not JSON at all", 4)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_thirty_two_levels_are_read_and_one_more_is_refused(opening: str, closing: str) -> None:
    deepest = opening * 32 + ("" if opening == "[" else "1") + closing * 32
    assert dumps(loads(deepest.encode(), LIMIT)) == deepest.encode()
    with pytest.raises(StrictJsonError, match="nested deeper"):
        loads((opening + deepest + closing).encode(), LIMIT)


@pytest.mark.parametrize("data", [b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000])
def test_absurd_nesting_is_an_error_and_no_crash(data: bytes) -> None:
    with pytest.raises(StrictJsonError, match="nested deeper"):
        loads(data, 10**6)


@given(st.binary(max_size=40) | st.text(alphabet='{}[]":,.0123456789eE-+\\untrfalse ', max_size=40).map(str.encode))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_are_refused_or_read_as_the_standard_reader_does(data: bytes) -> None:
    try:
        value = loads(data, LIMIT)
    except StrictJsonError:
        return
    assert value == json.loads(data)
