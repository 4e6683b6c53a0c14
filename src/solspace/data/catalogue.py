"""The image data sets that solspace knows by name: who made them, where their files are published, and where they are found.

Checksums are those of the original files: of what is downloaded, and of uncompressed idx files.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from solspace.system.checks import unknown


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
