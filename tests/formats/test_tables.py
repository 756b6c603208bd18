"""Tables of numbers and of text: which of the two, by which delimiter, and what is refused."""

import numpy as np
import pytest

from sparsecluster import KMeans, ReadError, convert, join_labels, load_model, read

CSV = "name,x,y,z\na,1,0,-2.5\nb,0,3,1e3\n"
CELLS = [[1, 0, -2.5], [0, 3, 1000]]


def write(path, text, **options):
    path.write_text(text, **options)
    return path


def arrow_file(path, columns):
    pa = pytest.importorskip("pyarrow")
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), path)
    else:
        pytest.importorskip("pyarrow.feather").write_feather(pa.table(columns), path)
    return path


def test_columns_of_numbers_are_dense_rows(tmp_path):
    path = write(tmp_path / "x.csv", CSV)
    for rows in (
        read(path, id_column="name"),
        convert(path, tmp_path / "x.store", id_column="name"),
        read(path, columns=("x", "y", "z"), id_column="name"),
    ):
        assert rows.matrix.toarray().tolist() == CELLS
        assert rows.matrix.dtype == np.float64
        assert (rows.ids.tolist(), list(rows.feature_names)) == (["a", "b"], ["x", "y", "z"])
        assert rows.recipe.format == "table"
        assert rows.recipe.options == {"id_column": "name", "columns": ["x", "y", "z"]}


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".arrow"])
def test_tables_of_arrow_are_read_like_csv(tmp_path, ending):
    columns = {"name": ["a", "b"], "x": [1, 0], "y": [0.0, 3.0], "z": [-2.5, 1e3]}
    path = arrow_file(tmp_path / f"x{ending}", columns)
    rows = read(path, id_column="name")
    assert rows.matrix.toarray().tolist() == CELLS
    assert (rows.ids.tolist(), list(rows.feature_names)) == (["a", "b"], ["x", "y", "z"])
    chosen = read(path, columns=("z", "x"))
    assert chosen.matrix.toarray().tolist() == [[-2.5, 1], [1000, 0]]
    small = arrow_file(tmp_path / f"y{ending}", {"x": np.array([1, 2], np.float32)})
    assert read(small).matrix.dtype == np.float32


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", "^", "~", "\x01"])
def test_the_delimiter_is_found(tmp_path, delimiter):
    cells = [["name", "note"], ["a", "x; y, z"], ["b", 'say "hi"']]
    quoted = [['"{}"'.format(cell.replace('"', '""')) for cell in row] for row in cells]
    path = write(tmp_path / "x.csv", "\n".join(delimiter.join(row) for row in quoted) + "\n")
    rows = read(path, column="note", id_column="name", token_pattern=r"\w+")
    assert rows.ids.tolist() == ["a", "b"]
    assert list(rows.feature_names) == ["hi", "say", "x", "y", "z"]


def test_an_unknown_encoding_is_refused_before_the_kind_of_table_is_looked_for(tmp_path):
    path = write(tmp_path / "x.csv", "id,text\n1,red apple\n")
    with pytest.raises(ValueError, match="encoding='nope' is not known"):
        read(path, encoding="nope")


def test_a_line_of_excel_above_the_header_tells_the_delimiter(tmp_path):
    path = write(tmp_path / "x.csv", "sep=~\r\nid~text, or not\r\n1~red, green\r\n")
    assert read(path, id_column="id").feature_names.tolist() == ["green", "red"]
    join_labels(path, [7], tmp_path / "j.csv", id_column="id")
    joined = (tmp_path / "j.csv").read_bytes()
    assert joined == b"sep=~\r\nid~text, or not~cluster\r\n1~red, green~7\r\n"


def test_blanks_around_the_names_of_columns_do_not_count(tmp_path):
    path = write(tmp_path / "x.csv", "id, text\na, red apple\n")
    assert read(path, id_column="id").feature_names.tolist() == ["apple", "red"]


def test_a_delimiter_can_be_given(tmp_path):
    path = write(tmp_path / "x.csv", "x~y\n1~2\n")
    rows = read(path, delimiter="~", columns=("y",))
    assert rows.matrix.toarray().tolist() == [[2]]
    for wrong in ("~~", "", '"', "\n"):
        with pytest.raises(ValueError, match="delimiter must be one character"):
            read(path, delimiter=wrong, columns=("y",))
        with pytest.raises(ValueError, match="delimiter must be one character"):
            read(path, delimiter=wrong)


def test_the_header_decides_over_the_text_below(tmp_path):
    path = write(tmp_path / "x.csv", "id;text\n1;red, green, blue\n2;one, two, three\n")
    assert read(path, id_column="id").ids.tolist() == ["1", "2"]


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    path = write(tmp_path / "x.csv", CSV, encoding="utf-8-sig")
    assert read(path, id_column="name").ids.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("x,y\n1,2\n", "table"),
        ("x\n1\n2\n", "table"),
        ("x,y\n1,\n,2\n3,4\n", "table"),
        ("text,n\naa,1\n", "csv"),
        ("body\nsome words\n", "csv"),
        ("text\n1\n", "csv"),
    ],
)
def test_what_a_table_holds_is_told_by_its_columns(tmp_path, text, format):
    path = write(tmp_path / "x.csv", text)
    if ",\n" in text:
        with pytest.raises(ReadError, match="line 2: the column 'y' has no value"):
            read(path)
    else:
        found = read(path, token_pattern=r"\w+") if format == "csv" else read(path)
        assert found.recipe.format == format


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("x,y\n1,2\n3,\n", {}, "line 3: the column 'y' has no value"),
        ("x,y\n1,2\n3,NaN\n", {}, "line 3: the column 'y' has no value"),
        ("x,y\n1,2\n3,inf\n", {}, "line 3: the column 'y' holds infinity"),
        ("x,y\n1,2\n3,abc\n", {"columns": ("x", "y")}, "line 3: the column 'y' holds 'abc'"),
        ("x;y\n1;2,5\n", {"columns": ("y",)}, "holds '2,5'.*decimals with a point"),
        (
            "x,y\n1,2\n",
            {"columns": ("x", "w")},
            "no column 'w'. It has 'x', 'y'",
        ),
        ("x,y\n1,2\n", {"columns": ("x", "x")}, "names a column twice"),
        ("x,x\n1,2\n", {"columns": ("x",)}, "line 1: two columns have the same name"),
        ("x,y\n1,2\n3\n", {}, "line 3: 1 columns, where the header has 2"),
        ("id,x\n1,2\n", {}, "does the column 'id' name the rows.*id_column='id'"),
        ("1,2\n3,4\n", {}, "line 1: holds numbers.*header=False"),
        ("x,2.5\n1,2\n", {}, "line 1: holds numbers.*header=False"),
        ("name\na\n", {"id_column": "name", "format": "table"}, "no columns but the ids"),
        ("x,y\n1,2\n", {"columns": "xy"}, "columns must be a list of names, got 'xy'"),
        (
            "a,x,b\nu,1,v\n",
            {},
            r"no column 'text'.*column='a', or take those with numbers, as in columns=\('x',\)",
        ),
        ("x,y\n1,2\n", {"encoding": "klingon", "columns": ("x",)}, "not known to Python"),
        ("x,y\n1,2\n", {"columns": ("x",), "column": "y"}, "columns: no effect"),
    ],
)
def test_tables_that_cannot_be_read_are_refused_with_row_and_column(
    tmp_path, text, options, message
):
    with pytest.raises(ValueError, match=message):
        read(write(tmp_path / "x.csv", text), **options)


def test_a_table_without_header_has_numbers_for_names(tmp_path):
    path = write(tmp_path / "x.csv", "1,2,3\n4,5,6\n")
    rows = read(path, header=False, columns=("2", "0"))
    assert rows.matrix.toarray().tolist() == [[3, 1], [6, 4]]
    assert read(path, header=True).matrix.toarray().tolist() == [[4, 5, 6]]


def test_what_is_null_in_arrow_is_refused_with_row_and_column(tmp_path):
    path = arrow_file(tmp_path / "x.parquet", {"x": [1.0, 2.0], "y": [1, None]})
    with pytest.raises(ReadError, match="row 1: the column 'y' has no value"):
        read(path)
    path = arrow_file(tmp_path / "y.parquet", {"x": [1.0, 2.0], "y": ["a", "b"]})
    with pytest.raises(ReadError, match="the column 'y' does not hold numbers"):
        read(path, columns=("x", "y"), format="table")
    with pytest.raises(ReadError, match=r"x \(double\), y \(string\).*those with numbers"):
        read(path)


def test_three_columns_of_numbers_are_not_guessed_to_be_entries(tmp_path):
    columns = {"i": [0, 1], "j": [1, 0], "v": [2.0, 3.0]}
    path = arrow_file(tmp_path / "x.parquet", columns)
    assert read(path).matrix.toarray().tolist() == [[0, 1, 2], [1, 0, 3]]
    with pytest.raises(ReadError, match="format='table' or format='parquet'"):
        read(path, columns=("i", "j", "v"))
    entries = read(path, columns=("i", "j", "v"), format="parquet")
    assert entries.matrix.toarray().tolist() == [[0, 2], [3, 0]]


def test_columns_of_other_files_are_matched_by_name(tmp_path):
    model = KMeans(2, random_state=0).fit(read(write(tmp_path / "x.csv", CSV), id_column="name"))
    model.save(tmp_path / "x.model")
    model = load_model(tmp_path / "x.model")
    other = write(tmp_path / "y.csv", "z;more;y;x\n1e3;7;3;0\n-2.5;8;0;1\n")
    assert model.predict(other).tolist() == model.labels_[::-1].tolist()
    table = arrow_file(tmp_path / "x.parquet", {"y": [0, 3], "x": [1, 0], "z": [-2.5, 1e3]})
    assert model.predict(table).tolist() == model.labels_.tolist()
    with pytest.raises(ReadError, match="lacks 1 of the 3"):
        model.predict(write(tmp_path / "w.csv", "x,y\n1,2\n"))


def test_a_model_of_a_data_frame_reads_its_columns_by_name(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(CELLS, columns=["x", "y", "z"])
    model = KMeans(2, random_state=0).fit(frame)
    path = write(tmp_path / "x.csv", "z,y,x\n-2.5,0,1\n1e3,3,0\n")
    assert model.predict(path).tolist() == model.labels_.tolist()


def test_parts_of_a_table_may_have_their_columns_in_any_order(tmp_path):
    write(tmp_path / "a.csv", "x,y\n1,2\n")
    write(tmp_path / "b.csv", "y,x\n4,3\n")
    assert read(str(tmp_path / "?.csv")).matrix.toarray().tolist() == [[1, 2], [3, 4]]


def test_parts_of_a_table_must_have_the_same_columns(tmp_path):
    write(tmp_path / "a.csv", "x,y\n1,2\n")
    write(tmp_path / "b.csv", "y,x,z\n4,3,5\n")
    with pytest.raises(ReadError, match=r"b\.csv: its columns are not those of .*a\.csv"):
        read(str(tmp_path / "?.csv"))
    rows = read(str(tmp_path / "?.csv"), columns=("y",))
    assert rows.matrix.toarray().tolist() == [[2], [4]]


def test_text_of_parquet_in_dictionaries(tmp_path):
    pa = pytest.importorskip("pyarrow")
    texts = pa.array(["red sky", "blue", None, "red sky"]).dictionary_encode()
    path = arrow_file(tmp_path / "x.parquet", {"text": texts.slice(0, 2), "n": [1, 2]})
    assert list(read(path).feature_names) == ["blue", "red", "sky"]
    with pytest.raises(ReadError, match="row 2 has no value in the column 'text'"):
        read(arrow_file(tmp_path / "x.feather", {"text": texts}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('id,text\n1,a b\n2,"c d\n3,e\n4,"f g"\n', "line 3: .* closed in the middle .* in line 5"),
        ('id,text\n1,a b\n2,"c d\n3,e f\n', "line 3: a quote that opens here is not closed"),
        ("text,text\na b,c\n", "2 columns have the name 'text'"),
        ("text\na b, c d\n", "line 2: 2 columns, where the header has 1. .* format='txt'"),
    ],
)
def test_rows_that_would_be_swallowed_are_refused(tmp_path, text, said):
    with pytest.raises(ReadError, match=said):
        read(write(tmp_path / "x.csv", text))


@pytest.mark.parametrize("name", ["customer_id", "Key", "userId", "row", "Unnamed: 0"])
def test_columns_that_seem_to_name_rows_are_not_taken_for_features(tmp_path, name):
    path = write(tmp_path / "x.csv", f"{name},x,paid\n1,2,3\n2,4,5\n")
    with pytest.raises(ReadError, match=f"does the column '{name}' name the rows"):
        read(path)
    assert read(path, columns=[name, "x"]).shape == (2, 2)
    assert read(path, id_column=name).feature_names.tolist() == ["x", "paid"]


def test_columns_that_a_table_lacks_are_refused_or_zero(tmp_path):
    known = read(write(tmp_path / "x.csv", "x,y,z\n1,2,3\n4,5,6\n"))
    other = write(tmp_path / "y.csv", "z,x\n3,1\n")
    with pytest.raises(ReadError, match=r"lacks 1 of the 3 expected columns \(y\)"):
        read(other, like=known)
    with pytest.warns(UserWarning, match="lacks 1 of the 3"):
        rows = read(other, like=known, missing_columns="zero")
    assert rows.matrix.toarray().tolist() == [[1, 0, 3]]


def test_decimals_with_a_comma_are_told(tmp_path):
    with pytest.raises(ReadError, match="Write decimals with a point"):
        read(write(tmp_path / "x.csv", "a;b\n1,5;2,5\n"))


def test_the_encoding_that_a_file_shows_is_advised(tmp_path):
    path = write(tmp_path / "x.csv", "text\nred apple\n", encoding="utf-16")
    with pytest.raises(ReadError, match=r"its first line .* encoding='utf-16'"):
        read(path)
    assert read(path, encoding="utf-16").n_rows == 1
