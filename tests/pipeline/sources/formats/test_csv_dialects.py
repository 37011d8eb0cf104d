"""CSV as people have it: options win over what is found, and what cannot be read is said with its line."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flows.options.batch import BatchOptions
from flows.runs.batch import find_data
from pipeline.errors import InputError
from pipeline.sources import CsvFormat, ReadRequest, Sizes, Source, open_source
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.formats.csv import CsvTable
from tests.pipeline.sources.test_sources_tables import rows
from tests.support.one_process import Heard
from tests.support.opening import opened


def found_in(path: Path, content: bytes | str, **more: Any) -> Source:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    options = BatchOptions(input=str(path), **{"label": "y", **more})
    (source, _) = find_data(options, Heard()).sources
    assert isinstance(source, Source)
    return source


def refused(path: Path, content: bytes | str, **more: Any) -> str:
    with pytest.raises(InputError) as error:
        rows(found_in(path, content, **more))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_options_win_over_what_is_found(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    # One ; and two commas in the first line.
    content = "a;b,c,y\n1;u,v,2\n3;w,x,4\n"
    found = found_in(path, content, delimiter=";", label="b,c,y")
    assert found.column_names == ("a",)
    assert rows(found) == ([[1.0], [3.0]], ["u,v,2", "w,x,4"])
    assert found_in(path, content).column_names == ("a;b", "c")
    named = found_in(path, "1,2,0\n3,4,1\n", header=("p", "q", "y"))
    assert named.column_names == ("p", "q")
    assert rows(named) == ([[1.0, 2.0], [3.0, 4.0]], [0.0, 1.0])
    numbers = found_in(path, "2001,2002,y\n1,2,0\n3,4,1\n", header=("yes",))
    assert numbers.column_names == ("2001", "2002")
    words = found_in(path, "u,v\nw,x\n", header=("no",), label="1", drop=None)
    assert rows(words) == ([["u"], ["w"]], ["v", "x"])
    assert "says" not in numbers.said()[0]
    # Bytes that are both, read as told.
    both = "name,y\né,1\nb,2\n".encode()
    assert rows(found_in(path, both))[0] == [["é"], ["b"]]
    assert rows(found_in(path, both, encoding="latin-1"))[0] == [["Ã©"], ["b"]]
    tabs = found_in(tmp_path / "t.data", "a\ty\n1\t2\n3\t4\n", delimiter="tab")
    assert rows(tabs) == ([[1.0], [3.0]], [2.0, 4.0])
    spaces = found_in(tmp_path / "t.txt", "a y\n1 2\n3 4\n", delimiter="space")
    assert rows(spaces) == ([[1.0], [3.0]], [2.0, 4.0])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"delimiter": "ab"}, "--delimiter ab: expected one character that is in no number"),
        ({"delimiter": "."}, "--delimiter .: expected one character"),
        ({"encoding": "klingon"}, "--encoding klingon: expected the name of an encoding"),
        ({"encoding": "base64"}, "--encoding base64: expected the name of an encoding"),
    ],
)
def test_what_no_csv_can_be_read_by_is_refused(more: dict[str, str], said: str) -> None:
    with pytest.raises(InputError) as error:
        BatchOptions(input="x.csv", **more)
    assert str(error.value).startswith(said)


@pytest.mark.slow
def test_faults_are_said_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    assert refused(path, "a,b,y\n1,2,0\n\n3,4\n") == f"{path}: line 4: found 2 cells, expected 3"
    assert refused(path, 'a,b,y\r\n"1\n",2,0\r\n3,4,1,5\r\n') == f"{path}: line 4: found 4 cells, expected 3"
    assert refused(path, "a,a,y\n1,2,0\n").startswith(
        f"{path}: line 1: column name 'a' appears twice (columns 1 and 2)"
    )
    assert refused(path, "a,b,y\n") == f"{path}: found a header (line 1) but no rows, expected at least one"
    assert refused(path, "1,2,0\n", header=("a", "y")) == (
        f"{path}: line 1: found 3 cells, expected 2 as names are given (--header a,y)"
    )
    late = "a,b,y\n" + "1,u,0\n" * 50_000
    assert refused(path, late.encode() + b"1,\xe9,1\n").endswith(", or train with --encoding cp1252")
    assert "t.csv: not utf-16 text" in refused(path, "a,y\n1,2\n", encoding="utf-16")
    np.savez(tmp_path / "t.npz", X=np.eye(3), y=np.arange(3))
    (tmp_path / "nameless").write_bytes((tmp_path / "t.npz").read_bytes())
    for name in ("t.npz", "nameless"):
        with pytest.raises(InputError, match=f"{name}: read as npz, but --delimiter is for CSV; leave it out"):
            _ = find_data(BatchOptions(input=str(tmp_path / name), delimiter=";"), Heard()).sources


def test_marks_line_ends_blank_lines_and_quotes(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    content = '\ufeffa,"b ""x""\nc",y\r\n\r\n1,"u,\r\nv",yes\r\n \r\n2,,no\r\n\r\n'
    source = found_in(path, content.replace(" \r\n", "\r\n"))
    assert source.column_names == ("a", 'b "x"\nc')
    assert rows(source) == ([[1.0, "u,\r\nv"], [2.0, None]], ["yes", "no"])


def test_a_quote_within_a_name_takes_no_rows(tmp_path: Path) -> None:
    """Quotes within cells further down stand for themselves too."""
    content = 'size 15",b,y\n1,u,0\n2,v,1\n3,"4"" w",0\n4,5" x,1\n'
    source = found_in(tmp_path / "t.csv", content)
    assert source.column_names == ('size 15"', "b")
    assert rows(source) == ([[1.0, "u"], [2.0, "v"], [3.0, '4" w'], [4.0, '5" x']], [0.0, 1.0, 0.0, 1.0])


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: pa.compress(content, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("ending", PACK)
def test_packed_text(ending: str, tmp_path: Path) -> None:
    content = ("a;b;y\n" + "".join(f"{k},5;w{k % 3};{k % 2}\n" for k in range(900))).encode()
    path = tmp_path / f"t.csv.{ending}"
    path.write_bytes(PACK[ending](content))
    source = opened(str(path), label="y", sizes=Sizes(block=2000))
    found, labels = rows(source)
    assert found[899] == [899.5, "w2"]
    assert labels == [float(k % 2) for k in range(900)]
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=rf"t\.csv\.{ending}: (truncated|damaged|cannot be read)"):
        rows(opened(str(path), label="y"))


def test_decimal_commas_are_read_where_they_divide_no_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    source = found_in(path, "a;b;y\n1,5;-2,25e1;0,5\n3;;1,5\n7,125;1;0\n")
    assert rows(source) == ([[1.5, -22.5], [3.0, None], [7.125, 1.0]], [0.5, 1.5, 0.0])
    assert source.said()[0].endswith("names in line 1, numbers with a decimal comma")
    assert [column.kind for column in source.column_plans] == ["number", "number"]
    # Points elsewhere: then the commas are no decimals.
    assert refused(path, "a;b;y\n1,500;1.5;0\n2,000;2.5;1\n") == (
        f"{path}: line 2, column 'a': found '1,500', expected plain numbers such as 1234.5 or -1234.5, without other "
        "signs or marks between thousands; if its cells are words: --category a; to leave it out: --drop a"
    )
    assert refused(path, "a, b;c;y\n1,500;1.5;0\n2,000;2.5;1\n").endswith(
        """if its cells are words: --category '"a, b"'; to leave it out: --drop '"a, b"'"""
    )


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
@pytest.mark.parametrize("lines", ["1,5;2,5;3\n1,5;2,5;3,5\n", "1,5;-2,5e1;3,5\n1,5;2;3\n", "1,234;2,345;0\n0,5;1;1\n"])
def test_decimal_commas_of_a_file_without_names_divide_no_columns(delimiter: str, lines: str, tmp_path: Path) -> None:
    source = opened(found_file(tmp_path, lines.replace(";", delimiter)), label="-1")
    assert "no names in the first line, numbers with a decimal comma" in source.said()[0]
    numbers = [[float(cell.replace(",", ".")) for cell in line.split(";")] for line in lines.split()]
    assert rows(source) == ([row[:-1] for row in numbers], [row[-1] for row in numbers])


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("size, cm;price, EUR;y\n180;2,5;0\n1,5;3;1\n", ";"),
        ("size, cm|price, EUR|y\n180|2,5|0\n", "|"),
        ("a, b; c\n1, 2; 3\n", ","),  # a blank behind each of them
        ("a,b;c\n1,2;u\n", ","),
        ("a, b;c\n1, 2\n3, 4\n", ","),  # the rows say it
        ("12,5;7\n13,5;7;8\n14,9\n", ","),  # lists
        ('"1,5;2",3\n4,5\n', ","),
        ("1,5;2,x\n1,5;2,y\n", ","),
        ("1,5\n2,5\n", ","),
        ("a\tb, c\n1\t2\n", "\t"),
        ('a, b;c\n1,"u\rv"\n', ","),
    ],
)
def test_commas_divide_columns_unless_they_belong_to_numbers_or_names(
    text: str, delimiter: str, tmp_path: Path
) -> None:
    (file,) = opened(found_file(tmp_path, text), label="-1").files
    assert isinstance(file, CsvTable)
    assert file.delimiter == delimiter


def found_file(folder: Path, text: str) -> str:
    (folder / "t.csv").write_bytes(text.encode())
    return str(folder / "t.csv")


NUMBERS_AS_WRITTEN = [
    *("12%", "$3.50", "1,234,567", "1.234,5", "1 234", "-€5", "₹1500", "US$ 5", "12,50 EUR", "CHF 1'234.50"),
    *("1.234,56-", "1.234,56- EUR", "(1,234.00)", "$(5)", "(€5)", "\u22125", "€110.5M", "$5 k", "5K USD"),
]


@pytest.mark.parametrize("cell", NUMBERS_AS_WRITTEN)
def test_formatted_numbers_are_refused_unless_they_are_words(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    content = f'a,b,y\n5,"7",0\n5,"{cell}",1\n'
    assert f"{path}: line 3, column 'b': found {cell!r}, expected plain numbers" in refused(path, content)
    assert found_in(path, content, category=("b",)).column_plans[1].kind == "category"
    assert found_in(path, content, drop=("b",)).column_names == ("a",)
    assert found_in(path, content + "1,some,0\n").column_plans[1].kind == "category"


@pytest.mark.parametrize("cell", ["A4", "EUR", "M", "12M", "ABC 12", "TOP 10", "5k", "(a)", "5 (3)", "1-2", "-", "4+"])
def test_codes_with_digits_and_capitals_are_words(cell: str, tmp_path: Path) -> None:
    source = found_in(tmp_path / "t.csv", f'a,b,y\n5,"7",0\n5,"{cell}",1\n')
    assert [column.kind for column in source.column_plans] == ["number", "category"]


def test_a_few_words_among_formatted_numbers_do_not_make_words_of_them(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    cells = [*(f'"${k},500"' for k in range(1, 60)), "-"]
    content = "b,y\n" + "".join(f"{cell},{k % 2}\n" for k, cell in enumerate(cells))
    assert f"{path}: line 2, column 'b': found '$1,500', expected plain numbers" in refused(path, content)
    dates = [*(f"{k:02}/05/2021 03:45 PM" for k in range(1, 31)), "-"]
    content = "b,y\n" + "".join(f"{cell},{k % 2}\n" for k, cell in enumerate(dates))
    assert f"{path}: line 2, column 'b': found '01/05/2021 03:45 PM', expected dates" in refused(path, content)
    assert found_in(path, content, category=("b",)).column_plans[0].kind == "category"


def labelled(labels: list[str]) -> str:
    return "a,y\n" + "".join(f'{k},"{label}"\n' for k, label in enumerate(labels))


def test_a_few_words_among_numbers_as_labels_are_faults(tmp_path: Path) -> None:
    path, prices = tmp_path / "t.csv", [f"{k}.5" for k in range(100)]
    faulty = labelled([*prices, "-"])
    assert refused(path, faulty) == (
        f"{path}: line 102, column 'y': found '-', expected a number as in the first rows (the label); if labels are "
        "words, train with --category y"
    )
    assert rows(found_in(path, faulty, category=("y",)))[1] == [*prices, "-"]
    # Few different numbers are classes, as are words among which many are none.
    assert rows(found_in(path, labelled(["1", "2", "3", "X"] * 30)))[1][:4] == ["1", "2", "3", "X"]
    assert rows(found_in(path, labelled([*prices, *["new"] * 20])))[1][-1] == "new"


def test_labels_that_are_formatted_numbers_are_refused_where_they_are_many(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    prices = labelled([f"{k},500" for k in range(1, 40)])
    assert refused(path, prices) == (
        f"{path}: line 2, column 'y' (the label): found '1,500', expected plain numbers such as 1234.5 or -1234.5, "
        "without other signs or marks between thousands; if labels are words, train with --category y"
    )
    assert rows(found_in(path, prices, category=("y",)))[1][:2] == ["1,500", "2,500"]
    named = prices.replace("a,y", "a,my y", 1)
    assert refused(path, named, label="my y").endswith("if labels are words, train with --category 'my y'")
    assert rows(found_in(path, labelled(["5%", "10%", "20%"] * 30)))[1][:3] == ["5%", "10%", "20%"]


def test_words_as_labels_that_come_late(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    text = labelled([*(str(k % 9) for k in range(40_000)), "X"])
    assert refused(path, gzip.compress(text.encode())).endswith("if labels are words, train with --category y")
    assert rows(found_in(path, gzip.compress(text.encode()), category=("y",)))[1][-2:] == ["3", "X"]


CELLS = ["31/12/2001", "31.12.01 23:59", "2001/12/31", "01/05/2021 03:45:00 PM", "2021-01-05 10:00:00 UTC", "2021-1-5"]


@pytest.mark.parametrize("cell", CELLS)
def test_dates_in_other_formats_are_refused(cell: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    said = refused(path, f"when,y\n2001-01-01,0\n{cell},1\n")
    assert said.startswith(f"{path}: line 3, column 'when': found '{cell}', expected dates such as 2001-05-31")


def test_scoring_reads_as_training_did(tmp_path: Path) -> None:
    csv = CsvFormat(header=["p", "q", "y"], delimiter="|")  # as a manifest has them
    (tmp_path / "t.csv").write_text("1|2|0\n3|4|1\n")
    source = opened(str(tmp_path / "t.csv"), label="y", csv=csv, request=TableRequest())
    assert source.column_names == ("p", "q")


def test_names_given_for_the_training_data_fit_files_that_are_otherwise(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("1|0|2|7\n3|1|4|7\n")
    csv = CsvFormat(header=["p", "y", "q", "id"], delimiter="|")
    trained = opened(str(tmp_path / "t.csv"), label="y", csv=csv, request=TableRequest(drop=("id",)))
    assert "names as given" in trained.said()[0]
    request = ReadRequest(
        label="y",
        require_label=False,
        columns=trained.plan.each,
        header_names=("p", "q"),
        csv=csv,
        csv_of_training=True,
    )

    def scored(text: str, name: str = "new.csv") -> list[list[float]]:
        (tmp_path / name).write_text(text)
        return rows(open_source(str(tmp_path / name), request=request))[0]

    assert scored("1|0|2|7\n") == [[1.0, 2.0]]
    assert scored("1|2\n") == [[1.0, 2.0]]
    assert scored("q|p\n2|1\n") == [[1.0, 2.0]]
    assert scored("p|y|q|id\n1|0|2|7\n") == [[1.0, 2.0]]
    assert scored('{"p": 1, "q": 2}\n', "new.jsonl") == [[1.0, 2.0]]
    with pytest.raises(
        InputError, match=r"found 3 cells, expected 4 as in the training data \(p,y,q,id\), or its 2 fe"
    ):
        scored("1|2|3\n")


@pytest.mark.parametrize("cell", ["1.234", "-12.345.678"])
def test_marks_between_thousands_further_down_are_no_decimal_points(cell: str, tmp_path: Path) -> None:
    path, wide = tmp_path / "t.csv", "x" * 1000
    head = "a;b;w;y\n" + f"1,5;2;{wide};0\n2,5;3;{wide};1\n" * 150
    assert refused(path, f"{head}{cell};2;;0\n", drop=("w",)) == (
        f"{path}: line 302, column 'a': found '{cell}', expected {cell.replace('.', '')} or a decimal comma, as the "
        "numbers of the first rows have"
    )
    found = rows(found_in(path, f"{head}0.125;1.5;;0\n", drop=("w",)))[0]
    assert found[-1] == [0.125, 1.5]
