"""YAML that people write: what is read, and how errors name file, line and key."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fednode.errors import ConfigError
from fednode.yamlfile import DEPTH_LIMIT, SIZE_LIMIT, Document, dotted, nearest, read_text


def test_scalars_are_the_text_that_stands_in_the_file() -> None:
    text = "[no, on, 007, 1.50, 2026-01-01, 0x1F, ~, null, 'quoted', \"two\\nlines\", 12:30]"
    expected = ["no", "on", "007", "1.50", "2026-01-01", "0x1F", "~", "null", "quoted", "two\nlines", "12:30"]
    assert Document("f", text).tree() == expected


def test_a_key_without_a_value_has_none() -> None:
    assert Document("f", "a:\nb: ~\nc: null\nd: 'null'\ne: ''\n").tree() == {
        "a": None,
        "b": None,
        "c": None,
        "d": "null",
        "e": "",
    }


def test_only_named_keys_have_numbers_and_only_plain_decimal_ones() -> None:
    tree = Document("f", "size: 28\nname: 28\nquorum: '28'\n").tree(("size", "quorum"))
    assert tree == {"size": 28, "name": "28", "quorum": "28"}
    for odd in ("028", "0x1c", "1_0", "1:30", "2.0", "1e3", "9" * 30):
        assert Document("f", f"size: {odd}").tree(("size",)) == {"size": odd}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: &x 2\n", "f line 2: anchors and aliases"),
        ("a: 1\n\nb: *x\n", "f line 3: anchors and aliases"),
        ("a: 1\nb: !!python/object:os.system x\n", "f line 2: tags"),
        ("a: !!str x\n", "f line 1: tags"),
        ("a: 1\nb: 2\na: 3\n", "f line 3, a: this key is there twice."),
        ("a:\n  - b: 1\n    b: 2\n", r"f line 3, a\[0\].b: this key is there twice."),
        ("a: 1\n'a': 2\n", "f line 2, a: this key is there twice."),
        ("a: 1\n? [b]\n: 2\n", "f line 2, the file: a key must be a word."),
        ("a:\n\tb: 1\n", "f line 2: a tab can't indent YAML; use spaces."),
        ("a: 1\nb: [1, 2\n", "f line 3: .*expected"),
        ("a: 1\nb: c: d\n", "f line 2: mapping values are not allowed here."),
        ("a: 1\n---\nb: 1\n", "f line 2: a second document begins here."),
        ("a: 1\nb: \x07\n", "f line 2: a character here is not allowed in YAML."),
        ('a: 1\nb: "\\UFFFFFFFF"\n', "f line 2: an escape here stands for no character."),
        ('a: 1\nb: "\\ud800"\n', "f line 2: a character here is not allowed."),
        ("[" * (DEPTH_LIMIT + 1), "f line 1: this is nested too deeply."),
        ("[" * 100_000, "f line 1: this is nested too deeply."),
    ],
)
def test_what_is_not_plain_yaml_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Document("f", text)


def test_a_place_has_the_line_of_its_key_or_of_what_is_around_it() -> None:
    document = Document("f", "# top\na:\n  b: 1\n\n  c:\n    - x\n    -\n      d: 2\n")
    lines = {
        (): 2,
        ("a",): 2,
        ("a", "b"): 3,
        ("a", "c"): 5,
        ("a", "c", 0): 6,
        ("a", "c", 1): 8,
        ("a", "c", 1, "d"): 8,
        ("a", "c", 5): 5,
        ("a", "missing"): 2,
        ("a", "b", "deeper"): 3,
    }
    assert {loc: document.line(loc) for loc in lines} == lines


def test_an_empty_file_is_none_and_its_faults_are_in_line_1() -> None:
    document = Document("f", "# nothing\n")
    assert document.tree() is None
    assert str(document.fault(("a",), "this key is missing.")) == "f line 1, a: this key is missing."


def test_places_are_written_as_people_do() -> None:
    assert dotted(("peers", 1, "address")) == "peers[1].address"
    assert dotted(()) == "the file"


def test_an_unknown_word_is_answered_with_the_nearest_one_or_with_all() -> None:
    assert nearest("adress", ("name", "id", "address")) == "unknown key; did you mean 'address'?"
    assert nearest("zzz", ("name", "id"), "variable") == "unknown variable; known are name, id."


def test_files_that_are_too_large_or_not_utf8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"#" * SIZE_LIMIT)
    assert len(read_text(path)) == SIZE_LIMIT
    path.write_bytes(b"#" * (SIZE_LIMIT + 1))
    with pytest.raises(ConfigError, match="larger than"):
        read_text(path)
    path.write_bytes(b"a: 1\nb: caf\xe9\n")
    with pytest.raises(ConfigError, match="line 2: this is not UTF-8"):
        read_text(path)


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        read_text(tmp_path)


@settings(max_examples=300)
@given(st.text(alphabet="ab:-[]{}#&*!|>'\"%@?,~ \n\t\\1\x00\ud7ff\ufeff", max_size=60))
def test_any_text_is_a_document_or_a_config_error(text: str) -> None:
    try:
        Document("f", text).tree(("a",))
    except ConfigError as error:
        assert str(error).startswith("f line ")
