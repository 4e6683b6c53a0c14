"""The image data sets by name, where they are published and found, and the formats of their files.

Formats are idx and the batches of CIFAR-10; .npz is read by `system.files`. Checksums are those of the original files: of what
is downloaded, and of uncompressed idx files. A file is read whole, unpacked if gzip compressed it, up to a limit. The size in
its header must agree with the bytes that follow. Nothing in it is executed, and nothing is unpacked to the disk.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from solspace.numerics.arrays import Array
from solspace.system.checks import unknown
from solspace.system.files import Damaged, contents, explained

LIMIT = 1 << 29  # bytes above which a file is refused by default
RECORD = 3073  # bytes of a picture in CIFAR's binary batches: the label, then 1024 values of red, green and blue each
_BATCHES = {"train": re.compile(r"data_batch_(\d+)(\.bin)?"), "test": re.compile(r"test_batch()(\.bin)?")}


@dataclass(frozen=True)
class DataSet:
    """A data set with ten classes; `classes` are the two that the paper separates."""

    name: str
    title: str
    classes: tuple[int, int]
    licence: str
    pixels: int = 784
    count: int | None = None  # of its images, where none are downloaded
    folder: str = ""  # where its downloads go inside a data folder
    addresses: tuple[str, ...] = ()  # folders where its files are published, to try in turn
    downloads: dict[str, dict[str, str]] = field(default_factory=dict)  # by split: checksums by names of files
    layouts: tuple[tuple[str, str], ...] = ()  # format and glob pattern of its files inside a data folder
    sha256: tuple[str, str] | None = None  # of images and labels to train on, as uncompressed idx files


def _idx(*md5: str) -> dict[str, dict[str, str]]:
    """Return the idx files to download, from the checksums of images and labels to train and to test on."""
    names = [f"{stem}-{kind}-ubyte.gz" for stem in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    files = [(name, f"md5:{checksum}") for name, checksum in zip(names, md5)]
    return {"train": dict(files[:2]), "test": dict(files[2:])}


MNIST = DataSet(
    name="mnist",
    title="MNIST, handwritten digits",
    classes=(3, 8),
    licence="CC BY-SA 3.0 (LeCun, Cortes)",
    folder="mnist",
    addresses=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    downloads=_idx(
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
    layouts=(("idx", "MNIST/raw"), ("idx", "mnist"), ("npz", "mnist.npz"), ("npz", "mnist_{split}*.npz")),
    sha256=(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
)

FASHION = DataSet(
    name="fashion",
    title="FashionMNIST, pictures of clothes",
    classes=(5, 7),
    licence="MIT (Zalando SE)",
    folder="fashion-mnist",
    addresses=(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    downloads=_idx(
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
    layouts=(("idx", "FashionMNIST/raw"), ("idx", "fashion-mnist"), ("npz", "fashionmnist_{split}*.npz")),
    sha256=(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    ),
)

_CIFAR_ARCHIVE = {"cifar-10-python.tar.gz": "sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"}
CIFAR10 = DataSet(
    name="cifar10",
    title="CIFAR-10, small colour photographs",
    classes=(3, 8),
    pixels=3072,
    licence="none stated; cite Krizhevsky 2009",
    addresses=(
        "https://www.cs.toronto.edu/~kriz/",
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
    ),
    downloads={"train": _CIFAR_ARCHIVE, "test": _CIFAR_ARCHIVE},
    layouts=(
        ("cifar batches", "cifar-10-batches-py"),
        ("cifar batches", "cifar-10-batches-py*/cifar-10-batches-py"),
        ("cifar batches", "cifar-10-batches-bin"),
        ("cifar archive", "cifar-10-*.tar.gz"),
        ("npz", "cifar10_{split}*.npz"),
    ),
)

DIGITS = DataSet(
    name="digits",
    title="scikit-learn's digits, always there",
    classes=(3, 8),
    pixels=64,
    count=1797,
    licence="CC BY 4.0 (Alpaydin, Kaynak 1998)",
)

CATALOGUE = {each.name: each for each in (MNIST, FASHION, CIFAR10, DIGITS)}
_ALIASES = {"fashionmnist": "fashion", "cifar": "cifar10"}


def data_set(name: str) -> DataSet:
    """Return the data set called `name`.

    >>> data_set("fashion").classes
    (5, 7)
    """
    key = str(name).lower().replace("-", "").replace("_", "")
    key = _ALIASES.get(key, key)
    if key not in CATALOGUE:
        raise unknown("data set", name, CATALOGUE)
    return CATALOGUE[key]


def idx_header(shape: tuple[int, ...]) -> bytes:
    """Return the header of a uint8 array in an idx file: 0, 0, the type 8, the sizes, highest byte first."""
    return bytes((0, 0, 8, len(shape))) + np.array(shape, ">u4").tobytes()


def idx_sha256(array: Array) -> str:
    """Return the checksum that an uncompressed idx file of `array` has."""
    return hashlib.sha256(idx_header(array.shape) + np.ascontiguousarray(array, np.uint8).tobytes()).hexdigest()


def read_idx(path: Path, limit: int = LIMIT) -> Array:
    """Return the uint8 array in an idx file of MNIST or FashionMNIST, plain or gzip-compressed."""
    content = contents(path, limit)
    with explained(path):
        if content[:3] != b"\0\0\x08":
            raise Damaged(path, "it does not begin as an idx file of unsigned bytes does")
        start = 4 + 4 * content[3]
        shape = np.frombuffer(content[4:start], ">u4").tolist()
        return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def batch_number(name: str, split: str) -> int | None:
    """Return the place of the batch of CIFAR-10 called `name` in its `split`; None for other files."""
    match = _BATCHES[split].fullmatch(name)
    return None if match is None else int(match[1] or 0)


def read_cifar(paths: Iterable[Path], split: str = "train", limit: int = LIMIT) -> tuple[Array, Array]:
    """Return images (k, 3072) and labels (k,): of batches, pickles or `.bin`, or of those of one split in an archive."""
    batches = [batch for path in paths for batch in _batches(path, split, limit)]
    return np.concatenate([images for images, _ in batches]), np.concatenate([labels for _, labels in batches])


def _batches(path: Path, split: str, limit: int) -> list[tuple[Array, Array]]:
    if ".tar" not in path.suffixes:
        return [_batch(contents(path, limit), path, path.name)]
    content = io.BytesIO(contents(path, limit + (1 << 24)))
    batches = {}
    # As a stream, which goes forward only: a damaged size cannot lead back to the same member.
    with explained(path), tarfile.open(fileobj=content, mode="r|") as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            number, file = batch_number(name, split), archive.extractfile(member)
            if number is not None and file is not None:
                batches[number] = _batch(file.read(), path, name)
    if not batches:
        raise Damaged(path, "it has no batch of CIFAR-10 in it")
    return [batches[number] for number in sorted(batches)]


def _batch(content: bytes, path: Path, name: str) -> tuple[Array, Array]:
    with explained(path):
        if name.endswith(".bin"):
            records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
            images, labels = records[:, 1:], records[:, 0]
        else:
            images, labels = read_batch(content)
        if not len(labels) or images.shape != (len(labels), RECORD - 1) or labels.max() > 9:
            raise Damaged(path, f"its images have the shape {images.shape}, or its labels are not from 0 to 9")
    return images, labels


def read_batch(content: bytes) -> tuple[Array, Array]:
    """Return the images (k, pixels) and labels (k,) of a pickled batch, without calling anything that it names."""
    batch = _Unpickler(io.BytesIO(content), encoding="latin1").load()
    _, shape, dtype, by_column, raw = batch["data"].state
    if dtype.arguments[0] != "u1" or by_column:
        raise ValueError("its data are no unsigned bytes in rows")
    raw = raw.encode("latin1") if isinstance(raw, str) else raw
    return np.frombuffer(raw, np.uint8).reshape(shape), np.array(batch["labels"], np.uint8)


class _Call:
    """Stands for the functions by which NumPy's arrays are pickled: keeps arguments and state, and calls nothing."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    """Finds only the names in pickled arrays, and returns a stand-in for each."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype"):
            return _Call
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is no array, and nothing in it was run")
