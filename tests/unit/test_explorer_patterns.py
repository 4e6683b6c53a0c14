"""Files with patterns: arrays or a sentence; nothing executed, nothing written, no memory for empty promises."""

from __future__ import annotations

import io
import pickle
import resource
import struct

import numpy as np
import pytest

from solspace.explorer import runs
from solspace.explorer.runs import read_patterns


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "float64"])
def test_npy_of_signs_becomes_int8(dtype, rng):
    matrix = rng.choice([-1, 1], size=(5, 7))
    read = read_patterns(npy(matrix.astype(dtype)))
    assert read.dtype == np.int8
    np.testing.assert_array_equal(read, matrix)


def test_npy_and_csv_of_numbers(rng):
    matrix = rng.standard_normal((4, 3))
    np.testing.assert_array_equal(read_patterns(npy(np.asfortranarray(matrix))), matrix)
    file = io.StringIO()
    np.savetxt(file, matrix, delimiter=",", fmt="%.17g", header="a,b,c", comments="")
    np.testing.assert_array_equal(read_patterns(file.getvalue().encode()), matrix)
    np.testing.assert_array_equal(read_patterns(("\ufeff" + file.getvalue()).encode()), matrix)


class Bomb:
    def __reduce__(self):
        return eval, ("open('pwned', 'w').close()",)


def promising(shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + b"\0" * 64


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (pickle.dumps(Bomb()), "not text"),
        (npy(np.array([[Bomb()]], dtype=object), allow_pickle=True), "pickled"),
        (npy(np.array([["a"]])), "array of real numbers"),
        (npy(np.ones(3)), r"shape \(m, n\)"),
        (npy(np.full((2, 2), np.nan)), "finite"),
        (npy(np.ones((3, 3)))[:-8], "announces 72 bytes"),
        (promising((10**6, 10**6)), "announces"),
        (promising((2**40, 2**40)), "announces"),
        (promising((0, 5)), "announces"),
        (b"\x93NUMPY\x09\x00nonsense", "cannot be read"),
        (b"a,b\nc,d\n", "text in columns"),
        (b"1,2\n3\n", "cannot be read"),
        (b"only words", "cannot be read"),
        (b"\xff\xfe\x00", "not text"),
    ],
)
def test_bad_files_get_a_sentence(content, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=words):
        read_patterns(content)
    assert list(tmp_path.iterdir()) == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_patterns_larger_in_memory_than_in_their_file_are_refused(monkeypatch):
    monkeypatch.setattr(runs, "MAX_PATTERNS", 2**20)
    table = b"\n".join([b"1,2,3,4"] * 2**16)
    with pytest.raises(ValueError, match="take 2 MiB of memory; the limit is 1 MiB"):
        read_patterns(table)
