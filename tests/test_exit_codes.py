"""The documented exit codes and those in the code are the same."""

import re
from pathlib import Path

from fednode import errors
from fednode.errors import ExitCode, FednodeError

PAGE = Path(__file__).parents[1] / "docs" / "exit-codes.md"
ROW = re.compile(r"^\| *(\d+) \| `(\w+)` \| (.+?) \| ?(.*?) ?\|$", re.MULTILINE)


def rows() -> list[tuple[str, str, str, str]]:
    return ROW.findall(PAGE.read_text())


def test_the_table_lists_every_code_once_in_order_by_number_and_name() -> None:
    assert [(int(code), name) for code, name, _, _ in rows()] == [(code.value, code.name) for code in ExitCode]


def test_every_code_has_a_meaning_and_every_error_an_example() -> None:
    assert all(len(meaning) > 4 for _, _, meaning, _ in rows())
    assert [code for code, _, _, example in rows() if not re.fullmatch(r"`.+`", example)] == ["0", "14"]


def test_no_code_is_one_that_shells_use() -> None:
    assert all(0 <= code <= 125 for code in ExitCode)


def test_each_kind_of_error_has_a_code_of_its_own() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, FednodeError)]
    codes = [kind.exit_code for kind in kinds]
    assert len(set(codes)) == len(codes)
    assert {ExitCode.OK, ExitCode.USAGE, ExitCode.INTERRUPTED} == set(ExitCode) - set(codes)
