"""CSV tables of image files: what they may say, and every fault by file, line and column."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fednode.contract import ImageShape
from fednode.errors import DataError
from fednode.learning.dataset import Dataset, DataSettings, load, load_test
from fednode.learning.describe import describe

GREY = ImageShape(size=4, channels=1)
LABELS = ("cat", "dog")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve images 0.png to 11.png of that brightness times 20, in a folder `inner`, and a file beside it all."""
    root = tmp_path / "data"
    (root / "inner").mkdir(parents=True)
    for number in range(12):
        Image.new("L", (4, 4), 20 * number).save(root / "inner" / f"{number}.png")
    Image.new("L", (4, 4), 255).save(tmp_path / "outside.png")
    return root


def source(folder: Path, text: str | bytes) -> str:
    table = folder / "table.csv"
    table.write_bytes(text if isinstance(text, bytes) else text.encode())
    return f"csv:{table}"


def read(folder: Path, text: str | bytes, skip_bad: bool = False) -> Dataset:
    return load(DataSettings(source=source(folder, text), skip_bad=skip_bad), GREY, LABELS)


def shades(pixels: np.ndarray) -> list[int]:
    return sorted(int(image[0, 0, 0]) // 20 for image in pixels)


@pytest.mark.parametrize(
    "text",
    [
        "file,label\ninner/0.png,Cat\ninner/1.png,dog\n",
        "file;label\r\ninner/0.png;cat\r\ninner/1.png;dog\r\n",
        "label\tfile\ncat\tinner/0.png\n\ndog\tinner/1.png",
        '\ufeff"file", "label"\n"inner/0.png", cat \n"inner/1.png","dog"\n',
        "File,Label\n./inner/0.png,CAT\ninner/1.png,dog\ninner/0.png,cat\n",
    ],
)
def test_separators_quotes_and_byte_order_marks_make_no_difference(folder: Path, text: str) -> None:
    data = read(folder, text)
    assert {label: shades(own.train) for label, own in data.labels.items()} == {"cat": [0], "dog": [1]}


def test_rows_are_of_the_part_that_the_split_says(folder: Path) -> None:
    text = (
        "file,label,split\ninner/0.png,cat,train\ninner/1.png,cat,TEST\ninner/2.png,dog,test\ninner/3.png,dog,train\n"
    )
    test = load_test(DataSettings(source=source(folder, text)), GREY, LABELS)
    assert shades(test.images) == [1, 2]
    assert test.targets.tolist() == [0, 1]
    assert {label: shades(own.train) for label, own in read(folder, text).labels.items()} == {"cat": [0], "dog": [3]}


@pytest.mark.parametrize("text", ["file,label\ninner/0.png,cat\n", "file,label,split\ninner/0.png,cat,train\n"])
def test_a_table_without_test_rows_has_no_test_part_and_the_error_says_what_to_add(folder: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"has no test images .* whose `split` is test"):
        load_test(DataSettings(source=source(folder, text)), GREY, LABELS)


def test_no_patient_is_on_both_sides_of_the_split(folder: Path) -> None:
    rows = [f"inner/{number}.png,cat,{'abc'[number % 3]}" for number in range(12)]
    own = read(folder, "\n".join(["file,label,patient", *rows])).labels["cat"]
    assert own.patients == 3
    train, holdout = ({shade % 3 for shade in shades(part)} for part in (own.train, own.holdout))
    assert len(holdout) == 1
    assert train | holdout == {0, 1, 2}


def test_an_empty_patient_is_not_a_patient(folder: Path) -> None:
    rows = [f"inner/{number}.png,cat," for number in range(12)]
    own = read(folder, "\n".join(["file,label,patient", *rows])).labels["cat"]
    assert (own.patients, len(own.holdout)) == (None, 1)


def test_copies_of_an_image_under_two_patients_tie_them_together(folder: Path) -> None:
    (folder / "copy.png").write_bytes((folder / "inner" / "0.png").read_bytes())
    rows = [f"inner/{number}.png,cat,{'ab'[number > 5]}" for number in range(12)]
    own = read(folder, "\n".join(["file,label,patient", *rows, "copy.png,cat,b"])).labels["cat"]
    assert len(own.train) == 12
    assert len(own.holdout) == 0


def test_a_missing_file_is_named_with_its_line_and_can_be_skipped(folder: Path) -> None:
    text = "file,label\ninner/0.png,cat\ngone.png,cat\n"
    with pytest.raises(DataError, match=r"gone.png \(line 3, column file\) in csv:.*table.csv can't be used"):
        read(folder, text)
    assert [bad.name for bad in read(folder, text, skip_bad=True).bad] == ["gone.png (line 3, column file)"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "table.csv is empty"),
        ("\n\n", "table.csv is empty"),
        ("file,lable\nx,cat", "line 1, column lable: unknown column; did you mean 'label'?"),
        ("file,label,,\nx,cat,,", "line 1, column 3: unknown column"),
        ("file,label,File\nx,cat,y", "line 1, column file: this column is there twice"),
        ("file\nx", "line 1, column label: this column is missing"),
        ("label\ncat", "line 1, column file: this column is missing"),
        ("file,label\ninner/0.png\n", "line 2: there are 1 cells, and 2 columns"),
        ("file,label\ninner/0.png,cat\n,dog\n", "line 3, column file: this is empty"),
        ('file,label\n"inner/0.png",  \n', "line 2, column label: this is empty"),
        ("file,label,split\ninner/0.png,cat,\n", "line 2, column split: '' is no part"),
        ("file,label,split\ninner/0.png,cat,val\n", "line 2, column split: 'val' is no part"),
        ("file,label\n/etc/passwd,cat\n", "line 2, column file: '/etc/passwd' is not relative"),
        ("file,label\n../outside.png,cat\n", "line 2, column file: '../outside.png' is not relative"),
        ("file,label\ninner/../../outside.png,cat\n", "line 2, column file: .* is not relative"),
        ("file,label\ninner/\0.png,cat\n", "line 2, column file: .* names no file"),
        ('file,label\n"inner/0.png,cat\n', "line 2: this is no row of a CSV table"),
        (b"file,label\ninner/0.png,caf\xe9\n", "line 2: this is not UTF-8"),
        ("file,label\ninner/0.png,cat\n\ninner/0.png,dog\n", "line 4, column label: line 2 says something else"),
        ("file,label\ninner/0.png,cat\n./inner//0.png,dog\n", "line 3, column label: line 2 says something else"),
        ("file,label,patient\na.png,cat,1\na.png,cat,2\n", "line 3, column patient: line 2 says something else"),
        ("file,label,split\na.png,cat,train\na.png,cat,test\n", "line 3, column split: line 2 says something else"),
        (
            "file,label,patient,split\na.png,cat,7,train\nb.png,dog,7,test\n",
            "line 3, column split: this patient is in train in line 2 and in test here",
        ),
        ("file,label\ninner/0.png,cot\n", "'cot' in csv:.* is not a label of the contract; the nearest is 'cat'"),
    ],
)  # fmt: skip
def test_a_fault_is_named_by_file_line_and_column(folder: Path, text: str | bytes, reason: str) -> None:
    with pytest.raises(DataError, match=reason) as found:
        read(folder, text)
    assert str(folder) in found.value.message
    assert "\n" not in found.value.message


def test_a_line_that_spans_two_counts_as_two(folder: Path) -> None:
    with pytest.raises(DataError, match="line 4, column file: this is empty"):
        read(folder, 'file,label\ninner/0.png,"cat\n"\n,dog\n')


@pytest.mark.parametrize("link", ["file", "folder", "circle"])
def test_links_that_lead_out_are_refused_and_inner_ones_followed(folder: Path, link: str) -> None:
    targets = {"file": folder.parent / "outside.png", "folder": folder.parent, "circle": folder / "circle"}
    (folder / link).symlink_to(targets[link])
    (folder / "inside.png").symlink_to(folder / "inner" / "0.png")
    name = {"folder": "folder/outside.png"}.get(link, link)
    with pytest.raises(DataError, match=r"line 2, column file: .*(leads out|names no file)"):
        read(folder, f"file,label\n{name},cat\n")
    assert shades(read(folder, "file,label\ninside.png,cat\n").labels["cat"].train) == [0]


def test_a_table_that_is_not_there_is_a_sentence(folder: Path) -> None:
    with pytest.raises(DataError, match=r"none\.csv is not there"):
        load(DataSettings(source=f"csv:{folder / 'none.csv'}"), GREY, LABELS)
    with pytest.raises(DataError, match="can't be read"):
        load(DataSettings(source=f"csv:{folder}"), GREY, LABELS)


def test_a_table_is_described_with_the_labels_of_both_parts(folder: Path) -> None:
    rows = ["inner/1.png,10,test", "inner/2.png,9,train", "inner/3.png,9,test"]
    found = describe(source(folder, "\n".join(["file,label,split", *rows])))
    assert found.labels == ["9", "10"]
    assert [(one.label, one.images, one.test) for one in found.counts] == [("9", 1, 1)]
