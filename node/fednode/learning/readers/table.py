"""A CSV table of image files: the columns `file` and `label`, and perhaps `patient` and `split`.

Rule 1: a file is named relative to the table's folder and is inside of it: no absolute path, no `..`, no link that leads out.
Rule 2: what is wrong is named by file, line and column.
Rule 3: all rows are of the training part, unless a column `split` says `train` or `test` in each.
Rule 4: no patient is in both parts, and rows that name one file say the same of it.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from fednode.contract import label_name
from fednode.errors import DataError
from fednode.learning.readers.found import Entry, File, Found, Part, natural
from fednode.yamlfile import nearest

COLUMNS = ("file", "label", "patient", "split")
NEEDED = COLUMNS[:2]
SEPARATORS = ",;\t"

Cells = dict[str, str]


@dataclass(frozen=True)
class Row:
    """A line of the table; `path` is where its file really is."""

    line: int
    file: str
    path: Path
    label: str
    patient: str | None
    split: Part


def find(rest: str, part: Part, labels: Sequence[str] | None) -> Iterator[Found]:
    """The labels of the table `rest`, by name. Raises DataError."""
    table = Path(rest).expanduser()
    folder = table.parent.resolve()
    rows = _once(table, [_row(table, folder, line, cells) for line, cells in _cells(table)])
    _check_patients(table, rows)
    entries: dict[str, list[Entry]] = {row.label: [] for row in rows}
    for row in rows:
        if row.split is part:
            name = f"{row.file} (line {row.line}, column file)"
            entries[row.label].append(Entry(name, File(row.path), row.patient))
    for label in sorted(entries, key=natural):
        yield Found(label, entries[label], declared=True)


def _cells(table: Path) -> Iterator[tuple[int, Cells]]:
    """Each row that is not empty: its line, and its cells by column."""
    text = _text(table)
    separator = max(SEPARATORS, key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    columns: list[str] = []
    line = 1
    try:
        for values in reader:
            cells = [value.strip() for value in values]
            if not columns and any(cells):
                columns = _columns(table, line, cells)
            elif any(cells):
                yield line, _by_column(table, line, columns, cells)
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{table} line {reader.line_num}: this is no row of a CSV table ({error}).") from None
    if not columns:
        raise DataError(f"{table} is empty.", f"Its first line names the columns: {', '.join(COLUMNS)}.")


def _text(table: Path) -> str:
    try:
        if table.exists() and not table.is_file():
            raise DataError(f"{table} can't be read: it is not a file.", "Name the table after csv:.")
        data = table.read_bytes()
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"{table} is not there.", "Check the path after csv:.") from None
    except OSError as error:
        raise DataError(f"{table} can't be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"{table} line {line}: this is not UTF-8.", "Save the table as UTF-8 text.") from None


def _columns(table: Path, line: int, cells: Sequence[str]) -> list[str]:
    """The names in the head of the table, in lower case. Raises DataError if one is not known, is there twice, or is missing."""
    columns = [cell.lower() for cell in cells]
    for position, column in enumerate(columns):
        where = column or str(position + 1)
        if column not in COLUMNS:
            raise _fault(table, line, where, nearest(column, COLUMNS, "column"), "Take out columns that are not used.")
        if column in columns[:position]:
            raise _fault(table, line, where, "this column is there twice.")
    for column in NEEDED:
        if column not in columns:
            raise _fault(table, line, column, "this column is missing.", "Separators are commas, semicolons or tabs.")
    return columns


def _by_column(table: Path, line: int, columns: Sequence[str], cells: Sequence[str]) -> Cells:
    if len(cells) != len(columns):
        raise DataError(f"{table} line {line}: there are {len(cells)} cells, and {len(columns)} columns.")
    return dict(zip(columns, cells, strict=True))


def _row(table: Path, folder: Path, line: int, cells: Cells) -> Row:
    for column in NEEDED:
        if not cells[column]:
            raise _fault(table, line, column, "this is empty.")
    split = cells.get("split", str(Part.TRAIN)).lower()
    if split not in list(Part):
        raise _fault(table, line, "split", f"{split!r} is no part; there are train and test.")
    path = _inside(table, folder, line, cells["file"])
    return Row(line, cells["file"], path, cells["label"], cells.get("patient") or None, Part(split))


def _inside(table: Path, folder: Path, line: int, name: str) -> Path:
    """Where a file of the table's folder really is (Rule 1)."""
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts:
        raise _fault(table, line, "file", f"{name!r} is not relative to the table's folder and inside of it.")
    try:
        path = (folder / relative).resolve()
    except (OSError, RuntimeError, ValueError):  # a circle of links, or a character that no path has
        raise _fault(table, line, "file", f"{name!r} names no file.") from None
    if not path.is_relative_to(folder):
        raise _fault(table, line, "file", f"{name!r} is a link that leads out of the table's folder.")
    return path


def _once(table: Path, rows: Sequence[Row]) -> list[Row]:
    """The rows, each file once. Raises DataError if two say different things of one file (Rule 4)."""
    first: dict[Path, Row] = {}
    for row in rows:
        known = first.setdefault(row.path, row)
        for column, same in (
            ("label", label_name(row.label) == label_name(known.label)),
            ("patient", row.patient == known.patient),
            ("split", row.split == known.split),
        ):
            if not same:
                raise _fault(table, row.line, column, f"line {known.line} says something else of this file.")
    return list(first.values())


def _check_patients(table: Path, rows: Sequence[Row]) -> None:
    first: dict[str, Row] = {}
    for row in rows:
        if row.patient is not None:
            known = first.setdefault(row.patient, row)
            if row.split is not known.split:
                what = f"this patient is in {known.split} in line {known.line} and in {row.split} here."
                raise _fault(table, row.line, "split", what, "All images of a patient are in one part.")


def _fault(table: Path, line: int, column: str, what: str, hint: str = "") -> DataError:
    return DataError(f"{table} line {line}, column {column}: {what}", hint)
