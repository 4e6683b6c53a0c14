"""One reader for all arrays: what was written is read back; what is damaged or lies about its size is a sentence."""

from __future__ import annotations

import io
import itertools
import os
import struct
import tracemalloc

import numpy as np
import pandas
import pytest

import solspace as ss
from solspace.system.files import FREE, read_arrays, read_npz

ARRAYS = [
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6).reshape(2, 3)),
    np.zeros((0, 5), np.float32),
    np.array(3.0),
    np.array(["cat", "dog"]),
    np.array(b"bytes"),
    np.arange(4, dtype=">i2"),
    np.ones((2, 2), bool),
]


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npz(save=np.savez, **arrays):
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def announcing(header, content=b""):
    """Return a .npy file with a header of our own."""
    text = header.encode().ljust(118) if isinstance(header, str) else header
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def parquet(**columns):
    return pandas.DataFrame(columns).to_parquet()


def holding(array):
    return f"{{'descr': '{array}', 'fortran_order': False, 'shape': (1099511627776,), }}"


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype.str}{array.shape}")
@pytest.mark.parametrize("as_bytes", [True, False])
def test_arrays_come_back_as_they_were(tmp_path, array, as_bytes):
    for kind, content in ((".npy", npy(array)), (".npz", npz(x=array)), (".npz", npz(np.savez_compressed, x=array))):
        path = tmp_path / f"array{kind}"
        path.write_bytes(content)
        (read,) = read_arrays(content if as_bytes else path).values()
        assert read.dtype == array.dtype
        assert read.flags.writeable
        np.testing.assert_array_equal(read, array)


def test_an_archive_gives_what_is_asked_for():
    content = npz(X=np.ones((2, 3)), y=np.arange(2), more=np.array("words"))
    assert set(read_arrays(content)) == {"X", "y", "more"}
    assert set(read_npz(content, ("y", "z"))) == {"y"}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"1,2\n3,4\n", [[1, 2], [3, 4]]),
        (b"a,b\r\n1,2\r\n3,4", [[1, 2], [3, 4]]),
        (b"\xef\xbb\xbf1\t2\n3\t4\n", [[1, 2], [3, 4]]),
        (b"# made by savetxt\n1,2\n", [[1, 2]]),
        (b'"a","b"\n"1","2.5e3"\n', [[1, 2500]]),
        (b"1\n-1\n", [1, -1]),
        (b"label\n0\n1\n", [0, 1]),
        (b"cat\ndog\n\ncat\n", ["cat", "dog", "cat"]),
        (b"species\ncat\n", ["species", "cat"]),
    ],
)
def test_tables(content, expected):
    np.testing.assert_array_equal(read_arrays(content)[""], expected)


def test_parquet():
    np.testing.assert_array_equal(read_arrays(parquet(a=[1, 2], b=[3.0, 4.0]))[""], [[1, 3], [2, 4]])
    np.testing.assert_array_equal(read_arrays(parquet(a=["cat", "dog"]))[""], ["cat", "dog"])
    with pytest.raises(ValueError, match="text in column 'a'"):
        read_arrays(parquet(a=["cat", "dog"], b=[1, 2]))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x09\x00",
        npy(np.ones(3))[:40],
        npy(np.ones(3))[:-1],
        npy(np.ones(3)) + b"x",
        announcing(holding("<f8"), bytes(64)),
        announcing("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }"),
        announcing("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 10**400), }"),
        announcing("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4611686018427387904), }"),
        announcing("(" * 110),
        announcing("-" * 9000),
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
        npy(np.array([None]), allow_pickle=True),
        npz(X=np.array([None])),
        npy(np.array([1j])),
        npy(np.zeros(2, "i4,f4")),
        b"PK\x03\x04nothing",
        npz(X=np.ones(100))[:-30],
        b"1,2\n3\n",
        b"1,2\n3,4,5\n",
        b"1,,2\n3,4,5\n",
        b"1,2x,3\n3,4,5\n",
        b"a,b\n",
        b"\x89PNG\r\n\x1a\n",
        b"PAR1 and no more",
    ],
    ids=itertools.count(),  # an archive holds the time it was made at: no name that two processes would share
)
def test_damage_and_lies_are_a_sentence(content):
    with pytest.raises(ValueError, match=r"^the file cannot be read: .*\.$"):
        read_arrays(content)


def test_a_file_that_is_not_there_or_not_a_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*none.npy"):
        read_arrays(tmp_path / "none.npy")
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_arrays(tmp_path / "folder.npy")
    with pytest.raises(ValueError, match=r"known kinds are \.npy"):
        read_arrays(tmp_path / "X.doc")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.npy")  # without a writer reading would wait for ever
        with pytest.raises(FileNotFoundError, match="there is no file"):
            read_arrays(tmp_path / "pipe.npy")


def test_what_expands_too_far_is_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, weights=np.zeros(FREE + 1, np.uint8))
    assert path.stat().st_size < FREE / 500
    for read in (read_arrays, read_npz, ss.Samples.load):
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="expand to"):
                read(path)
            assert tracemalloc.get_traced_memory()[1] < 1 << 24
        finally:
            tracemalloc.stop()


def test_a_limit_holds_for_every_kind():
    square = np.zeros((100, 100))
    text = io.StringIO()
    np.savetxt(text, square, delimiter=",")
    for content in (npy(square), npz(X=square), npz(np.savez_compressed, X=square), text.getvalue().encode()):
        assert sum(array.size for array in read_arrays(content, 1 << 20).values()) == 10_000
        with pytest.raises(ValueError, match="more than the"):
            read_arrays(content, 1000)
    with pytest.raises(ValueError, match="more than the"):
        read_arrays(parquet(**{str(k): range(1000) for k in range(50)}), 1000)


def test_the_checksum_of_an_archive_counts():
    content = bytearray(npz(X=np.zeros(1000)))
    content[len(content) // 2] ^= 1
    with pytest.raises(ValueError, match="CRC"):
        read_arrays(bytes(content))
