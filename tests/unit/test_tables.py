"""Tables and sparse matrices as people have them: columns by name and number, an index, labels of any kind; and lies."""

from __future__ import annotations

import gzip
import io
import itertools
import tracemalloc

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet
from scipy import sparse

import solspace as ss
from solspace.system.files import FREE, read_arrays
from solspace.system.tables import read_table

X = np.random.default_rng(0).normal(size=(4, 3))
ANIMALS = np.array(["dog", "cat", "cat", "dog"])
FRAME = pandas.DataFrame(X, columns=["a", "b", "c"])


def text(frame, **options):
    return frame.to_csv(None, **options).encode()


def packed(frame, **options):
    return frame.to_parquet(None, **options)


def saved(matrix, **options):
    file = io.BytesIO()
    sparse.save_npz(file, matrix, **options)
    return file.getvalue()


def npz(**arrays):
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


WAYS = [
    (text(FRAME.assign(animal=ANIMALS)), "animal"),
    (text(FRAME.assign(animal=ANIMALS)), "4"),
    (text(FRAME.assign(animal=ANIMALS), index=False), "animal"),
    (text(FRAME.assign(animal=ANIMALS), index=False), "-1"),
    (text(FRAME.assign(animal=ANIMALS), index=False, header=False), "3"),
    (text(FRAME.assign(animal=ANIMALS), sep="\t"), "animal"),
    (text(FRAME.assign(animal=ANIMALS), sep=";"), "animal"),
    (text(FRAME.assign(animal=ANIMALS), quoting=1), "animal"),
    (text(pandas.DataFrame(X).assign(animal=ANIMALS)), "animal"),  # columns that pandas counts
    (text(pandas.DataFrame(X).assign(animal=ANIMALS), index=False), "3"),
    (text(FRAME.assign(animal=ANIMALS)[["animal", "a", "b", "c"]], index=False), "0"),
    (b"# by hand\n" + text(FRAME.assign(animal=ANIMALS), index=False, header=False), "3"),
    (packed(FRAME.assign(animal=ANIMALS)), "animal"),
    (packed(FRAME.assign(animal=pandas.Categorical(ANIMALS))), "animal"),
    (packed(FRAME.assign(animal=ANIMALS, id=[7, 3, 5, 1]).set_index("id")), "animal"),
]


@pytest.mark.parametrize(("content", "label"), WAYS, ids=itertools.count())
def test_a_table_is_read_in_every_way_it_is_written(content, label):
    patterns, labels, _ = read_table(content, label)
    np.testing.assert_allclose(patterns, X, rtol=1e-14)
    np.testing.assert_array_equal(labels, ANIMALS)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1, 1, 0], [0, 1, 1, 0]),
        ([-1, 1, 1, -1], [-1, 1, 1, -1]),
        ([True, False, True, True], [True, False, True, True]),
        (["1a", "2", "1a", "2"], ["1a", "2", "1a", "2"]),
        (["C#", "C", "C", "C#"], ["C#", "C", "C", "C#"]),
        (["a,b", 'q"q', "a,b", "a,b"], ["a,b", 'q"q', "a,b", "a,b"]),
    ],
)
def test_labels_of_any_kind(values, expected):
    for content in (text(FRAME.assign(y=values), index=False), packed(FRAME.assign(y=values))):
        patterns, labels, _ = read_table(content, "y")
        np.testing.assert_allclose(patterns, X, rtol=1e-14)
        read = labels if labels.dtype.kind != "U" or "True" not in labels else labels == "True"
        np.testing.assert_array_equal(read, expected)


def test_true_and_false_are_features_and_an_index_is_left_out():
    truth = np.array([True, False, False, True])
    for content in (text(FRAME.assign(t=truth, y=ANIMALS)), packed(FRAME.assign(t=truth, y=ANIMALS))):
        patterns, *_ = read_table(content, "y", index="b")
        np.testing.assert_allclose(patterns, np.column_stack([X[:, [0, 2]], truth]), rtol=1e-14)
    np.testing.assert_allclose(read_arrays(text(FRAME))[""], X, rtol=1e-14)  # pandas' index is no pattern
    np.testing.assert_array_equal(read_arrays(text(pandas.Series(ANIMALS, name="y")))[""], ANIMALS)
    counted = text(pandas.DataFrame({"k": np.arange(4), "a": X[:, 0]}), index=False)
    assert read_arrays(counted)[""].shape == (4, 2)  # a column with a name is a column


@pytest.mark.parametrize(
    ("content", "label", "words"),
    [
        (text(FRAME), "d", "no column 'd': it has '', 'a', 'b', 'c'"),
        (b"1,2,3\n4,5,6\n", "y", "columns without names go by number, 0 to 2"),
        (b"1,2,3\n4,5,6\n", "3", "columns without names go by number, 0 to 2"),
        (b"a,a,b\n4,5,6\n", "a", "two of its columns are called 'a'"),
        (b"a,b,y\n1,2,0\n1,0\n", "y", "row 2 has 2 cells instead of 3"),
        (text(FRAME.assign(y=ANIMALS).iloc[[2, 0, 1]]), "y", "first column has no name and does not count"),
        (b"a,y\n", "y", "holds no rows"),
        (b"y\n1\n-1\n", "y", "no column of numbers beside"),
        (packed(FRAME.assign(y=ANIMALS)), "z", "no column 'z'"),
        (packed(FRAME.assign(y=ANIMALS, z=ANIMALS)), "y", "text in column 'z'"),
        (packed(FRAME.assign(y=["a", None, "b", "a"])), "y", "missing values in column 'y'"),
        (packed(FRAME.assign(y=ANIMALS, t=pandas.to_datetime([0, 1, 2, 3]))), "y", "'t' holds datetime64"),
    ],
    ids=itertools.count(),
)
def test_a_table_that_cannot_be_meant_is_a_sentence(content, label, words):
    with pytest.raises(ValueError, match=f"^the file cannot be read: .*{words}.*\\.$"):
        read_table(content, label)


@pytest.mark.parametrize(
    ("cells", "what"),
    [
        (["1", "", "3"], "missing"),
        (["1", " NA", "3"], "missing"),
        (["1", "?", "3"], "missing"),
        (["1", "nan", "3"], "missing"),
        (["true", "null", "false"], "missing"),
        (["1", "-inf", "3"], "infinite"),
        (["1", "1e999", "3"], "infinite"),
        (["1", "1_000", "3"], "text"),
        (["1", "Rome", "3"], "text"),
    ],
)
def test_a_cell_that_is_no_finite_number_is_named_by_row_and_column(cells, what):
    rows = ["id,income,city,y", *(f"{k},{cell},{k},{k % 2}" for k, cell in enumerate(cells))]
    place = "column 'income'.* row 2 "
    with pytest.raises(ValueError, match=rf"{what}.* {place}"):
        read_table("\n".join(rows).encode(), "y")
    with pytest.raises(ValueError, match=rf"{what}.* {place}"):
        read_arrays("\n".join(rows).encode())
    if what != "text":
        with pytest.raises(ValueError, match="column 1, counted from 0"):
            read_table("\n".join(rows[1:]).encode(), "3")
    patterns, *_ = read_table("\n".join(rows).encode(), "y", index="income")
    assert patterns.shape == (3, 2)


def test_columns_of_text_are_all_named():
    content = b"name,age,town,y\nAnn,30,Rome,0\nBob,,Paris,1\nCy,50,,1\n"
    with pytest.raises(ValueError, match=r"text in columns 'name', 'town'"):
        read_table(content, "y")


@pytest.mark.parametrize("missing", ["", "NA", "nan"])
@pytest.mark.parametrize("classes", [("cat", "dog"), ("cat",), ("0", "1")])
def test_a_missing_label_is_no_class(missing, classes):
    labels = [*classes, missing, *classes]
    rows = ["a,b,y", *(f"{k},{k},{label}" for k, label in enumerate(labels))]
    with pytest.raises(ValueError, match=rf"missing values in column 'y'.* row {1 + len(classes)} "):
        read_table("\n".join(rows).encode(), "y")
    if missing == "NA":
        with pytest.raises(ValueError, match="missing values"):
            read_arrays("\n".join(labels).encode())


@pytest.mark.parametrize("column", [[1.0, None, 3.0, 4.0], [1.0, np.inf, 3.0, 4.0]])
def test_parquet_holds_finite_numbers(column):
    content = packed(FRAME.assign(income=column, y=ANIMALS))
    with pytest.raises(ValueError, match=r"values in column 'income'.* row 2 "):
        read_table(content, "y")
    assert read_table(content, "y", index="income")[0].shape == (4, 3)
    if None in column:
        with pytest.raises(ValueError, match=r"missing values in column 'income'.* row 2 "):
            read_table(content, "income", index="y")
    with pytest.raises(ValueError, match=r"values in column 'income'.* row 2 "):
        read_arrays(packed(FRAME.assign(income=column)))


def test_a_compressed_table_is_the_table(tmp_path):
    plain = text(FRAME.assign(y=ANIMALS))
    FRAME.assign(y=ANIMALS).to_csv(tmp_path / "T.CSV.gz")
    FRAME.assign(y=ANIMALS).to_csv(tmp_path / "t.tsv.gz", sep="\t")
    for source in (gzip.compress(plain), tmp_path / "T.CSV.gz", tmp_path / "t.tsv.gz"):
        patterns, labels, _ = read_table(source, "y")
        np.testing.assert_allclose(patterns, X, rtol=1e-14)
        np.testing.assert_array_equal(labels, ANIMALS)
    for damaged in (gzip.compress(plain)[:-9], gzip.compress(plain)[:-8] + bytes(8)):
        with pytest.raises(ValueError, match=r"^the file cannot be read: "):
            read_table(damaged, "y")


def test_a_compressed_table_that_expands_too_far_is_refused_before_memory_is_taken():
    line = b"0," * 999 + b"0\n"
    bomb = gzip.compress(line * 20_000, 9)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="expand to"):
            read_arrays(bomb, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 1 << 23
    finally:
        tracemalloc.stop()
    assert read_arrays(gzip.compress(line * 100), 1_000_000)[""].shape == (100, 1000)


def test_a_table_of_very_many_columns_is_read_in_little_time():
    n = 50_000
    lines = [",".join(f"c{k}" for k in range(n)), ",".join(["1"] * n), ",".join(["true"] * n)]
    for rows in (lines[:2], [lines[0], lines[2]]):  # anything that grew with the square of n would take minutes
        patterns, labels, _ = read_table("\n".join(rows).encode(), "c7")
        assert patterns.shape == (1, n - 1)
        assert (patterns == 1).all()
        assert len(labels) == 1


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csr_array])
def test_sparse_matrices_come_back_dense(kind, make):
    dense = np.where(np.abs(X) > 0.5, X, 0).astype(np.float32)
    for compressed in (True, False):
        (read,) = read_arrays(saved(make(dense).asformat(kind), compressed=compressed)).values()
        np.testing.assert_array_equal(read, dense)


def parts(**changed):
    """Return a sparse matrix of two entries, some parts of which are not what they should be."""
    good = {"format": b"csr", "shape": (2, 3), "data": np.ones(2), "indices": [0, 2], "indptr": [0, 1, 2]}
    return npz(**{name: np.array(value) for name, value in {**good, **changed}.items()})


@pytest.mark.parametrize(
    "content",
    [
        parts(shape=(2, 1 << 40)),
        parts(format=b"coo", shape=(1 << 40, 1 << 40), row=[0, 1], col=[0, 1]),
        parts(shape=(2, (1 << 63) - 1)),
        parts(shape=(2, -3)),
        parts(shape=(2, 3, 4)),
        parts(indices=[0, 3]),
        parts(indices=[0, -1]),
        parts(indices=[0, 1 << 40]),
        parts(indptr=[0, 5, 2]),
        parts(indptr=[0, 1, 2, 2]),
        parts(data=np.array(["a", "b"])),
        parts(format=b"lil"),
        parts(format=b"coo", row=[0, 5], col=[0, 1]),
        parts(format=b"dia", offsets=[0, 1, 2]),
    ],
    ids=itertools.count(),
)
def test_a_sparse_matrix_that_lies_is_refused_before_memory_is_taken(content):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"^the file cannot be read: .*\.$"):
            read_arrays(content)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_words_that_take_too_much_room_are_refused_before_memory_is_taken():
    rows, long = 20_000, "a" * (FREE // 10_000)
    table = pyarrow.table({"a": np.zeros(rows), "y": pyarrow.array([long] + ["b"] * (rows - 1)).dictionary_encode()})
    file = io.BytesIO()
    parquet.write_table(table, file)
    lines = b"\n".join([long.encode(), *[b"b"] * rows])
    for content, label in ((file.getvalue(), "y"), (lines.replace(b"\n", b",1\n") + b",1", "0")):
        with pytest.raises(ValueError, match="expand to"):
            read_table(content, label)
    with pytest.raises(ValueError, match="expand to"):
        read_arrays(lines)


def test_a_limit_holds_for_the_new_kinds():
    wide = sparse.csr_array(([1.0], ([0], [0])), shape=(100, 100))
    assert read_arrays(saved(wide), 100_000)[""].shape == (100, 100)
    with pytest.raises(ValueError, match="more than the"):
        read_arrays(saved(wide), 1000)
    for content in (text(pandas.concat([FRAME] * 1000)), packed(pandas.concat([FRAME] * 1000))):
        with pytest.raises(ValueError, match="more than the"):
            read_table(content, "a", limit=50)


def test_samples_that_look_like_a_sparse_matrix_stay_what_they_are(tmp_path):
    problem = ss.Perceptron.random(7, 0.4, rng=0)
    ss.Samples.of(problem, problem.enumerate().sample(2, rng=1), {"sampler": "exact"}).save(tmp_path / "s.npz")
    assert set(read_arrays(tmp_path / "s.npz")) >= {"weights", "meta"}
