"""Every format reads back what was written; damaged and hostile files end in a sentence, run nothing and stay small."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from solspace.data.catalogue import idx_header, read_batch, read_cifar, read_idx
from solspace.system.files import read_npz

RANDOM = np.random.default_rng(0)
PICTURES = RANDOM.integers(0, 256, (20, 28, 28), dtype=np.uint8)
COLOURS = RANDOM.integers(0, 256, (20, 3072), dtype=np.uint8)
LABELS = np.arange(20, dtype=np.uint8) % 10


def idx_bytes(array: np.ndarray) -> bytes:
    return idx_header(array.shape) + array.tobytes()


def batch_bytes(protocol: int) -> bytes:
    return pickle.dumps({"batch_label": "1 of 5", "labels": LABELS.tolist(), "data": COLOURS}, protocol)


class OldPickler(pickle._Pickler):  # type: ignore[name-defined, misc]
    """Writes byte strings as Python 2 did, which is how CIFAR-10 was published."""

    dispatch = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]  # noqa: RUF012

    def save_bytes(self, text: bytes) -> None:
        self.write(b"T" + struct.pack("<i", len(text)) + text)
        self.memoize(text)

    dispatch[bytes] = save_bytes


def old_batch() -> bytes:
    file = io.BytesIO()
    OldPickler(file, 2).dump({b"labels": LABELS.tolist(), b"data": COLOURS})
    return file.getvalue().replace(b"numpy._core", b"numpy.core")


def binary_bytes() -> bytes:
    return b"".join(bytes([label]) + picture.tobytes() for label, picture in zip(LABELS, COLOURS))


def tar_bytes(members: dict[str, bytes], mode: str = "w:gz") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def npz_bytes(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def write(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("array", [PICTURES, LABELS])
def test_idx_reads_back(tmp_path: Path, array: np.ndarray, packed: bool) -> None:
    content = idx_bytes(array)
    path = write(tmp_path, "file", gzip.compress(content) if packed else content)
    np.testing.assert_array_equal(read_idx(path), array)


@pytest.mark.parametrize("order", ["C", "F"])
def test_npz_reads_back(tmp_path: Path, order: str) -> None:
    path = write(tmp_path, "x.npz", npz_bytes(images=np.asarray(PICTURES, order=order), labels=LABELS.astype(">i8")))
    arrays = read_npz(path, ("images", "labels", "index"))
    assert set(arrays) == {"images", "labels"}
    np.testing.assert_array_equal(arrays["images"], PICTURES)
    np.testing.assert_array_equal(arrays["labels"], LABELS)


@pytest.mark.parametrize("protocol", [3, 4])
def test_cifar_pickles_by_python_3_read_back(tmp_path: Path, protocol: int) -> None:
    images, labels = read_cifar([write(tmp_path, "data_batch_1", batch_bytes(protocol))])
    np.testing.assert_array_equal(images, COLOURS)
    np.testing.assert_array_equal(labels, LABELS)


def test_cifar_as_published_reads_back(tmp_path: Path) -> None:
    assert b"numpy.core.multiarray" in old_batch()
    assert b"_codecs" not in old_batch()
    path = write(tmp_path, "data_batch_1", old_batch())
    images, labels = read_cifar([path, path])
    np.testing.assert_array_equal(images, np.concatenate([COLOURS, COLOURS]))
    np.testing.assert_array_equal(labels, np.concatenate([LABELS, LABELS]))


def test_cifar_binary_reads_back(tmp_path: Path) -> None:
    images, labels = read_cifar([write(tmp_path, "data_batch_1.bin", binary_bytes())])
    np.testing.assert_array_equal(images, COLOURS)
    np.testing.assert_array_equal(labels, LABELS)


def test_cifar_archives_read_back_in_the_order_of_their_batches(tmp_path: Path) -> None:
    second = pickle.dumps({"labels": [7], "data": COLOURS[:1]}, 4)
    members = {
        "cifar-10-batches-py/data_batch_2": second,
        "cifar-10-batches-py/readme.html": b"hello",
        "cifar-10-batches-py/data_batch_1": old_batch(),
        "cifar-10-batches-py/test_batch": second,
    }
    path = write(tmp_path, "cifar.tar.gz", tar_bytes(members))
    images, labels = read_cifar([path], "train")
    np.testing.assert_array_equal(labels, [*LABELS, 7])
    np.testing.assert_array_equal(images, np.concatenate([COLOURS, COLOURS[:1]]))
    assert read_cifar([path], "test")[1].tolist() == [7]
    binary = write(tmp_path, "binary.tar", tar_bytes({"cifar-10-batches-bin/data_batch_1.bin": binary_bytes()}, "w"))
    np.testing.assert_array_equal(read_cifar([binary], "train")[0], COLOURS)


READERS = {
    "idx": (read_idx, "f", idx_bytes(PICTURES)),
    "idx.gz": (read_idx, "f.gz", gzip.compress(idx_bytes(PICTURES))),
    "npz": (lambda path: read_npz(path, ("images", "labels")), "f.npz", npz_bytes(images=PICTURES, labels=LABELS)),
    "pickle": (lambda path: read_cifar([path]), "data_batch_1", old_batch()),
    "binary": (lambda path: read_cifar([path]), "data_batch_1.bin", binary_bytes()),
    "archive": (lambda path: read_cifar([path], "train"), "f.tar.gz", tar_bytes({"x/data_batch_1": old_batch()})),
}


@pytest.mark.parametrize("kind", READERS)
def test_truncated_files_are_refused(tmp_path: Path, kind: str) -> None:
    read, name, content = READERS[kind]
    for keep in (0, 1, 3, 9, len(content) // 2 + 1, len(content) - 1):
        with pytest.raises(ValueError, match=r"cannot be read: .*\."):
            read(write(tmp_path, name, content[:keep]))


@pytest.mark.parametrize("kind", READERS)
def test_foreign_content_is_refused(tmp_path: Path, kind: str) -> None:
    read, name, _ = READERS[kind]
    for content in (b"<html>404 not found</html>" * 300, b"\x89PNG\r\n\x1a\n" + bytes(4000), bytes(3000)):
        with pytest.raises(ValueError, match="cannot be read"):
            read(write(tmp_path, name, content))


def lying_npz(content: int) -> bytes:
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999,), }"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", b"\x93NUMPY\x01\x00v\x00" + header.ljust(118) + bytes(content))
    return file.getvalue()


def lying_tar() -> bytes:
    info = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
    info.size = 1 << 40
    return gzip.compress(info.tobuf() + bytes(1 << 20))


def lying_idx(count: int, content: int) -> bytes:
    return bytes((0, 0, 8, 3)) + struct.pack(">3I", count, 28, 28) + bytes(content)


def packed(content: bytes) -> bytes:
    return gzip.compress(content, 1)


def backward_tar() -> bytes:
    """Return an archive whose first member has a negative size: what follows it is itself."""
    info = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = b"\xff" * 10 + (-512).to_bytes(2, "big", signed=True)
    block[148:156] = b"        "
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block) + bytes(1024)


LARGE, SMALL = 1 << 26, 1 << 24
BOMBS = {
    "idx header": ("idx", lambda: lying_idx(2**32 - 1, 100)),
    "idx.gz header": ("idx", lambda: packed(lying_idx(2**32 - 1, 100))),
    "idx.gz that expands": ("idx", lambda: packed(lying_idx(600_000, LARGE))),
    "idx.gz longer than announced": ("idx", lambda: packed(idx_bytes(LABELS) + bytes(LARGE))),
    "npz header": ("npz", lambda: lying_npz(1000)),
    "npz that expands": ("npz", lambda: lying_npz(LARGE)),
    "tar header": ("archive", lying_tar),
    "tar that expands": ("archive", lambda: tar_bytes({"x/readme": bytes(LARGE), "x/data_batch_1": old_batch()})),
    "batch that expands": ("binary", lambda: packed(bytes(3073) * 10_000)),
    "pickle frame": ("pickle", lambda: b"\x80\x04\x95" + struct.pack("<Q", 1 << 33) + b"}."),
    "tar that goes backwards": ("archive", backward_tar),
    "pickle shape": ("pickle", lambda: old_batch().replace(b"M\x00\x0c", b"M\xff\xff")),
}
LIMITED = {
    "idx": ("f.gz", lambda path: read_idx(path, SMALL)),
    "npz": ("f.npz", lambda path: read_npz(path, ("images",), SMALL)),
    "archive": ("f.tar.gz", lambda path: read_cifar([path], "train", SMALL)),
    "binary": ("data_batch_1.bin", lambda path: read_cifar([path], limit=SMALL)),
    "pickle": ("data_batch_1", lambda path: read_cifar([path], limit=SMALL)),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_in_little_memory(tmp_path: Path, bomb: str) -> None:
    kind, make = BOMBS[bomb]
    name, read = LIMITED[kind]
    path = write(tmp_path, name, make())
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="cannot be read"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * SMALL
    finally:
        tracemalloc.stop()


class Runs:
    """Unpickles into a call."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_runs_code_is_refused_and_runs_nothing(tmp_path: Path, protocol: int) -> None:
    flag = tmp_path / "flag"
    attempts = [
        Runs(os.system, f"touch {flag}"),
        Runs(os.mkdir, str(flag)),
        Runs(eval, f"open({str(flag)!r}, 'w')"),
        Runs(np.fromfile, __file__),
        Runs(getattr, "text", "upper"),
        Runs(np.random.default_rng),
    ]
    for attempt in attempts:
        content = pickle.dumps({"data": COLOURS, "labels": LABELS.tolist(), "more": attempt}, protocol)
        with pytest.raises(ValueError, match=r"asks for .* nothing in it was run"):
            read_cifar([write(tmp_path, "data_batch_1", content)])
    assert not flag.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cnumpy\nsave\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__base__\x93.",
        b"cos\nsystem\n(S'echo'\ntR.",
        b"(S'echo'\nios\nsystem\n.",
        b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x03\x00\x00\x00hextR.",
        b"cnumpy\ndtype\n(S'O'\ntR.",
        b"cnumpy\ndtype\n(S'S1000000000'\ntR.",
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\ndtype\n(I9999999999999\ntS'b'\ntR.",
        b"cnumpy\nndarray\n(I99999999999\nttR.",
        b"Pidentity\n.",
        b"\x82\x01.",
    ],
)
def test_pickles_may_only_build_plain_arrays(content: bytes) -> None:
    with pytest.raises((ValueError, LookupError, TypeError, AttributeError, pickle.UnpicklingError)):
        read_batch(content)


@pytest.mark.parametrize(
    "batch",
    [
        [1, 2],
        {"data": COLOURS},
        {"data": COLOURS.astype(float), "labels": LABELS.tolist()},
        {"data": COLOURS[0], "labels": LABELS.tolist()},
        {"data": COLOURS, "labels": [1, 2]},
        {"data": COLOURS, "labels": ["a"] * 20},
        {"data": COLOURS, "labels": [10**40] * 20},
        {"data": COLOURS, "labels": [-1] * 20},
    ],
)
def test_batches_without_data_and_labels_are_refused(tmp_path: Path, batch: object) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        read_cifar([write(tmp_path, "data_batch_1", pickle.dumps(batch))])


def test_npz_of_objects_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    file = io.BytesIO()
    np.savez(file, images=np.array([Runs(os.mkdir, str(flag))], dtype=object))
    with pytest.raises(ValueError, match="pickled objects"):
        read_npz(write(tmp_path, "x.npz", file.getvalue()), ["images"])
    assert not flag.exists()
