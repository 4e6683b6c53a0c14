"""Uploads: arrays or a sentence; nothing executed, nothing written, no memory for empty promises."""

from __future__ import annotations

import io
import pickle
import resource
import struct

import numpy as np
import pytest

from solspace.explorer import uploads
from solspace.explorer.uploads import read_upload


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "float64"])
def test_npy_of_signs_becomes_int8(dtype, rng):
    matrix = rng.choice([-1, 1], size=(5, 7))
    read = read_upload(npy(matrix.astype(dtype)))
    assert read.dtype == np.int8
    np.testing.assert_array_equal(read, matrix)


def test_npy_and_csv_of_numbers(rng):
    matrix = rng.standard_normal((4, 3))
    np.testing.assert_array_equal(read_upload(npy(np.asfortranarray(matrix))), matrix)
    file = io.StringIO()
    np.savetxt(file, matrix, delimiter=",", fmt="%.17g", header="a,b,c", comments="")
    np.testing.assert_array_equal(read_upload(file.getvalue().encode()), matrix)
    np.testing.assert_array_equal(read_upload(("\ufeff" + file.getvalue()).encode()), matrix)


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
        (pickle.dumps(Bomb()), "neither"),
        (npy(np.array([[Bomb()]], dtype=object), allow_pickle=True), "pickled"),
        (npy(np.array([["a"]])), "must hold numbers"),
        (npy(np.ones(3)), r"shape \(m, n\)"),
        (npy(np.full((2, 2), np.nan)), "finite"),
        (npy(np.ones((3, 3)))[:-8], "damaged"),
        (promising((10**6, 10**6)), "damaged"),
        (promising((2**40, 2**40)), "damaged"),
        (promising((0, 5)), "damaged"),
        (b"\x93NUMPY\x09\x00nonsense", "header"),
        (b"a,b\nc,d\n", "not a table of numbers"),
        (b"1,2\n3\n", "not a table of numbers"),
        (b"only words", "no numbers"),
        (b"\xff\xfe\x00", "neither"),
    ],
)
def test_bad_files_get_a_sentence(content, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=words):
        read_upload(content)
    assert list(tmp_path.iterdir()) == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_the_size_limit_is_stated(monkeypatch):
    monkeypatch.setattr(uploads, "MAX_BYTES", 2**20)
    with pytest.raises(ValueError, match="has 2 MiB; the limit is 1 MiB"):
        read_upload(b"1" * 2**21)
