"""Readers of arrays, samples and images on damaged files: a sentence or the right numbers, little memory, no waiting.

Where a format carries a checksum (everything compressed or in a .npz), what is read is what was written. Where it does
not (.npy, text, idx, CIFAR's batches), a changed number cannot be detected, and may be read.
"""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import bounded, check_sentence, mutated
from scipy import sparse

import solspace as ss
from solspace.data.catalogue import idx_header, read_cifar, read_idx
from solspace.system.files import read_arrays
from solspace.system.tables import read_table

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(6, 9)), RANDOM.choice([-1, 1], 6)
PICTURES = RANDOM.integers(0, 256, (4, 28, 28), dtype=np.uint8)
COLOURS = RANDOM.integers(0, 256, (3, 3072), dtype=np.uint8)
BATCH = pickle.dumps({"labels": [3, 8, 3], "data": COLOURS}, 4)


def written(write: Callable[[io.BytesIO], Any]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def archive() -> bytes:
    def write(file: io.BytesIO) -> None:
        with tarfile.open(fileobj=file, mode="w:gz") as tar:
            info = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
            info.size = len(BATCH)
            tar.addfile(info, io.BytesIO(BATCH))

    return written(write)


def samples() -> bytes:
    problem = ss.Perceptron.random(9, 0.4, rng=1)
    drawn = ss.Samples.of(problem, problem.enumerate().sample(4, rng=0), {"sampler": "exact", "path": np.arange(5)})
    path = Path("samples.npz")
    drawn.save(path)
    return path.read_bytes()


def load_samples(path: Path) -> dict[str, Any]:
    drawn = ss.Samples.load(path)
    record = {"target": np.array(drawn.target.to_json()), "path": drawn.info["path"]}
    return {"weights": drawn.weights, "stabilities": drawn.stabilities, "solved": drawn.solved, **record}


def cifar(path: Path) -> dict[str, Any]:
    return dict(zip(("images", "labels"), read_cifar([path])))


def table(path: Path) -> dict[str, Any]:
    return dict(zip("Xy", read_table(path, "animal")))


def frame() -> pandas.DataFrame:
    return pandas.DataFrame(X, columns=list("abcdefghi")).assign(animal=np.where(Y > 0, "dog", "cat"), truth=Y > 0)


SPARSE = sparse.csr_array(np.where(np.abs(X) > 1, X, 0.0))
TEXT = "a,b,c\n" + "\n".join(",".join(f"{value:.17g}" for value in row) for row in X)
KINDS: dict[str, tuple[str, Callable[[], bytes], Callable[[Path], dict[str, Any]], bool]] = {
    "npy": ("f.npy", lambda: written(lambda file: np.save(file, X)), read_arrays, False),
    "npz": ("f.npz", lambda: written(lambda file: np.savez(file, X=X, y=Y)), read_arrays, True),
    "npz packed": ("f.npz", lambda: written(lambda file: np.savez_compressed(file, X=X, y=Y)), read_arrays, True),
    "csv": ("f.csv", TEXT.encode, read_arrays, False),
    "tsv": ("f.tsv", TEXT.replace(",", "\t").encode, read_arrays, False),
    "sparse": ("f.npz", lambda: written(lambda file: sparse.save_npz(file, SPARSE)), read_arrays, True),
    "sparse coo": ("f.npz", lambda: written(lambda file: sparse.save_npz(file, SPARSE.tocoo(), False)), read_arrays, True),
    "labelled": ("f.csv", lambda: frame().to_csv().encode(), table, False),
    "labelled tsv": ("f.tsv", lambda: frame().to_csv(sep="\t", index=False).encode(), table, False),
    "labelled parquet": ("f.parquet", lambda: frame().to_parquet(), table, False),
    "words": ("f.csv", lambda: b"species\n" + b"cat\ndog\n" * 20, read_arrays, False),
    "samples": ("f.npz", samples, load_samples, True),
    "idx": ("f", lambda: idx_header(PICTURES.shape) + PICTURES.tobytes(), lambda p: {"": read_idx(p)}, False),
    "idx packed": ("f", lambda: gzip.compress(idx_header((4, 28, 28)) + PICTURES.tobytes()), lambda p: {"": read_idx(p)}, True),
    "pickle": ("data_batch_1", lambda: BATCH, cifar, False),
    "pickle 3": ("data_batch_1", lambda: pickle.dumps({"labels": [3, 8, 3], "data": COLOURS}, 3), cifar, False),
    "binary": ("data_batch_1.bin", lambda: np.column_stack([[3, 8, 3], COLOURS]).astype(np.uint8).tobytes(), cifar, False),
    "archive": ("f.tar.gz", archive, lambda p: dict(zip("Xy", read_cifar([p], "train"))), True),
}  # fmt: skip
"""Name of the file, a good one, how it is read, and whether it carries a checksum."""


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return set(one) == set(other) and all(np.array_equal(one[name], other[name]) for name in one)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files(kind: str, budget: Callable[[int, int], int], tally: Counter[str]) -> None:
    name, make, read, checked = KINDS[kind]
    content, other = make(), archive()
    path = Path(name)
    path.write_bytes(content)
    right = read(path)
    for number in range(budget(150, 5000)):
        path.write_bytes(mutated(content, np.random.default_rng(number), other))
        try:
            with bounded():
                got = read(path)
        except ValueError as error:
            check_sentence(error, number)
            tally["refused"] += 1
        else:
            equal = same(got, right)
            assert equal or not checked, f"try {number}: other numbers were read"
            tally["read as written" if equal else "read with other numbers, which has no checksum"] += 1


def test_damaged_parquet(budget: Callable[[int, int], int], tally: Counter[str]) -> None:
    content = pandas.DataFrame(X, columns=list("abcdefghi")).to_parquet()
    for number in range(budget(150, 5000)):
        try:
            with bounded():
                read_arrays(mutated(content, np.random.default_rng(number), TEXT.encode()) or b"PAR1")
            tally["read"] += 1
        except ValueError as error:
            check_sentence(error, number)
            tally["refused"] += 1


def test_sparse_matrices_of_nonsense(budget: Callable[[int, int], int], tally: Counter[str]) -> None:
    for number in range(budget(150, 5000)):
        random = np.random.default_rng(number)
        size = int(random.integers(0, 6))
        huge = [0, 1, -1, 3, 7, 1 << 31, 1 << 40, (1 << 63) - 1]
        parts: dict[str, Any] = {
            "format": np.array(random.choice([b"csr", b"csc", b"coo", b"bsr", b"dia", b"dok", b""])),
            "shape": random.choice([1, 3, 7] * 5 + huge, int(random.choice([2, 2, 2, 3]))),
            "data": random.normal(size=[(size,), (size, 1, 1), (1, size)][int(random.integers(3))]),
        }
        for name in ("indices", "indptr", "row", "col", "offsets"):
            parts[name] = random.choice([0, 1, 2, 3] * 8 + huge, int(random.integers(0, 6))).astype(
                random.choice(["int32", "int64", "uint8", "float64"])
            )
        try:
            with bounded(), np.errstate(all="ignore"):
                read_arrays(written(lambda file, parts=parts: np.savez(file, **parts)))
            tally["read"] += 1
        except ValueError as error:
            check_sentence(error, number)
            tally["refused"] += 1


def test_any_bytes_at_all(budget: Callable[[int, int], int], tally: Counter[str]) -> None:
    starts = st.sampled_from([b"", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x02\x00", b"PK\x03\x04", b"PK\x05\x06", b"PAR1"])
    text = st.text(st.sampled_from("0123456789.,-+eE\t\n\r\"#naif {}'[]:()x"), max_size=80).map(str.encode)

    @settings(max_examples=budget(300, 20_000), derandomize=True)
    @given(starts, st.one_of(st.binary(max_size=200), text))
    def check(start: bytes, rest: bytes) -> None:
        try:
            with bounded():
                read_arrays(start + rest)
            tally["read"] += 1
        except ValueError as error:
            check_sentence(error)
            tally["refused"] += 1

    check()


def test_tables_of_any_numbers_come_back(budget: Callable[[int, int], int], tally: Counter[str]) -> None:
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    tables = st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(numbers, min_size=n, max_size=n), min_size=1, max_size=5)
    )

    @settings(max_examples=budget(150, 5000), derandomize=True)
    @given(tables, st.sampled_from(",\t"), st.sampled_from(["\n", "\r\n"]), st.booleans())
    def check(rows: list[list[float]], separator: str, end: str, title: bool) -> None:
        lines = [separator.join(map(repr, row)) for row in rows]
        names = [separator.join("abcd"[: len(rows[0])])] if title else []
        got = read_arrays(end.join(names + lines).encode())[""]
        np.testing.assert_array_equal(got.reshape(len(rows), -1), rows)
        tally["read as written"] += 1

    check()
