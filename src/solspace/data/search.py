"""Find images where users already have them.

Folders are tried in this order: the one given, `SOLSPACE_DATA` (several, separated as in `PATH`), our own download
folder, torchvision's usual places, Keras', Debian's. In each of them the layouts of torchvision, Keras, Debian,
CIFAR's own site and ours are recognised. MNIST and FashionMNIST use the same file names: a folder that says neither
in its own name is told by the checksum of its labels.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from solspace.data.catalogue import CATALOGUE, FASHION, DataSet, data_set
from solspace.data.formats import batch_number, idx_sha256, read_cifar, read_cifar_archive, read_idx
from solspace.numerics.arrays import Array
from solspace.system.arrays import Damaged, read_npz
from solspace.system.names import unknown

VARIABLE = "SOLSPACE_DATA"
SPLITS = ("train", "test")
_IDX_FOLDERS = {
    "mnist": ("MNIST/raw", "mnist/raw", "mnist", "MNIST"),
    "fashion": ("FashionMNIST/raw", "fashion-mnist", "fashion_mnist", "fashionmnist", "fashion", "FashionMNIST"),
}
_NPZ = {
    "mnist": ("mnist.npz", "mnist_{split}*.npz"),
    "fashion": ("fashion-mnist.npz", "fashion_mnist.npz", "fashionmnist_{split}*.npz", "fashion_{split}*.npz"),
    "cifar10": ("cifar10_{split}*.npz",),
}
_CIFAR_FOLDERS = ("cifar-10-batches-py*", "cifar-10-batches-py*/cifar-10-batches-py", "cifar-10-batches-bin")
_CIFAR_ARCHIVES = ("cifar-10-python.tar.gz", "cifar-10-batches-py*", "cifar-10-binary.tar.gz")


@dataclass(frozen=True)
class Source:
    """Files that hold one split of a data set.

    Parameters
    ----------
    name : str
        Data set.
    split : {"train", "test"}
        Split.
    format : {"idx", "npz", "cifar batches", "cifar archive"}
        Format of the files.
    files : tuple of Path
        The files.
    """

    name: str
    split: str
    format: str
    """`"idx"`, `"npz"`, `"cifar batches"` or `"cifar archive"`."""
    files: tuple[Path, ...]

    def read(self) -> tuple[Array, Array]:
        """Read the files.

        Returns
        -------
        tuple of ndarray
            Images (k, pixels) and labels (k,), uint8.

        Raises
        ------
        ValueError
            If a file is damaged.
        """
        limit = CATALOGUE[self.name].limit
        if self.format == "idx":
            images, labels = (read_idx(path, limit) for path in self.files)
        elif self.format == "npz":
            images, labels = _from_npz(self.files[0], self.split, limit)
        elif self.format == "cifar batches":
            images, labels = read_cifar(self.files, limit)
        else:
            images, labels = read_cifar_archive(self.files[0], self.split, limit)
        return _checked(images, labels, self.files)

    def is_original(self, images: Array, labels: Array) -> bool | None:
        """Return whether the images are the published ones, bit for bit.

        Parameters
        ----------
        images, labels : ndarray
            As returned by `read`.

        Returns
        -------
        bool or None
            None where no checksum is known.
        """
        data = CATALOGUE[self.name]
        if not data.images_sha256 or self.split != "train" or len(images) != 60_000 or images.shape[1] != 784:
            return None
        pictures = images.reshape(-1, 28, 28)
        return idx_sha256(pictures) == data.images_sha256 and idx_sha256(labels) == data.labels_sha256

    def __str__(self) -> str:
        if len(self.files) == 1:
            return str(self.files[0])
        return f"{self.files[0].parent} ({len(self.files)} files)"


def find(name: str, folder: str | os.PathLike[str] | None = None, split: str = "train") -> list[Source]:
    """Return the places where a data set was found, in the order in which `load` tries them.

    Parameters
    ----------
    name : str
        Data set.
    folder : str or path-like, optional
        Folder to search instead of `SOLSPACE_DATA` and the usual places.
    split : {"train", "test"}, default "train"
        Split of the data set.

    Returns
    -------
    list of Source
        Empty if nothing was found.

    Examples
    --------
    >>> find("digits")
    []
    """
    data = data_set(name)
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    found: dict[tuple[Path, ...], Source] = {}
    for root, given in folders(folder):
        for source in _sources(data, root, given, split):
            found.setdefault(tuple(path.absolute() for path in source.files), source)
    return list(found.values())


def folders(folder: str | os.PathLike[str] | None = None) -> list[tuple[Path, bool]]:
    """Return the folders that are searched, each with whether the user named it."""
    if folder is not None:
        return [(Path(folder).expanduser(), True)]
    home = Path.home()
    keras = Path(os.environ.get("KERAS_HOME") or home / ".keras").expanduser()
    usual = [download_folder(), Path("data"), Path(), home / "data", home / "datasets", keras / "datasets"]
    return [(root, True) for root in _named()] + [(root, False) for root in (*usual, Path("/usr/share/datasets"))]


def download_folder() -> Path:
    """Return the folder for downloads.

    Returns
    -------
    Path
        The first writable folder in `SOLSPACE_DATA`, else the user's cache.
    """
    from platformdirs import user_cache_path

    writable = [root for root in _named() if root.is_dir() and os.access(root, os.W_OK)]
    return writable[0] if writable else user_cache_path("solspace") / "data"


def _named() -> list[Path]:
    return [Path(text).expanduser() for text in os.environ.get(VARIABLE, "").split(os.pathsep) if text]


def _sources(data: DataSet, root: Path, given: bool, split: str) -> Iterator[Source]:
    try:
        if not root.is_dir():
            return
        if data.name == "cifar10":
            yield from _cifar_sources(root, given, split)
        elif data.name in _IDX_FOLDERS:
            yield from _idx_sources(data, root, given, split)
        for pattern in _NPZ.get(data.name, ()):
            for path in sorted(root.glob(pattern.format(split=split))):
                if path.is_file():
                    yield Source(data.name, split, "npz", (path,))
    except PermissionError:
        return


def _idx_sources(data: DataSet, root: Path, given: bool, split: str) -> Iterator[Source]:
    for inside in (*_IDX_FOLDERS[data.name], *(("", "raw") if given else ())):
        files = _idx_files(root / inside, split)
        if files and (inside not in ("", "raw") or _belongs(data, root / inside, files[1])):
            yield Source(data.name, split, "idx", files)


def _idx_files(folder: Path, split: str) -> tuple[Path, Path] | None:
    stem = "train" if split == "train" else "t10k"
    pair = []
    for kind in ("images-idx3", "labels-idx1"):
        spellings = [f"{stem}-{text}-ubyte{end}" for text in (kind,) for end in ("", ".gz")]
        spellings += [name.replace("-idx", ".idx") for name in spellings]
        there = [folder / name for name in spellings if (folder / name).is_file()]
        if not there:
            return None
        pair.append(there[0])
    return pair[0], pair[1]


def _belongs(data: DataSet, folder: Path, labels: Path) -> bool:
    if {_word(part) for part in folder.absolute().parts[-3:]} & {"fashion", "fashionmnist"}:
        return data is FASHION
    try:
        checksum = idx_sha256(read_idx(labels, data.limit))
    except ValueError:
        checksum = ""
    return (checksum == FASHION.labels_sha256) == (data is FASHION)


def _word(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _cifar_sources(root: Path, given: bool, split: str) -> Iterator[Source]:
    roots = [root, root / "cifar10", root / "CIFAR10"]
    places = [path for base in roots for pattern in _CIFAR_FOLDERS for path in sorted(base.glob(pattern))]
    for folder in (*places, *((root,) if given else ())):
        batches = [path for path in folder.glob("*_batch*") if batch_number(path.name, split) is not None]
        for end in ("", ".bin"):
            same = [path for path in batches if path.suffix == end and path.is_file()]
            if same:
                same.sort(key=lambda path: batch_number(path.name, split) or 0)
                yield Source("cifar10", split, "cifar batches", tuple(same))
    for base in roots:
        for pattern in _CIFAR_ARCHIVES:
            for path in sorted(base.glob(pattern)):
                if path.is_file():
                    yield Source("cifar10", split, "cifar archive", (path,))


def _from_npz(path: Path, split: str, limit: int) -> tuple[Array, Array]:
    ours, keras = ("images", "labels"), (f"x_{split}", f"y_{split}")
    arrays = read_npz(path, (*ours, *keras), limit)
    for images, labels in (ours, keras):
        if images in arrays and labels in arrays:
            return arrays[images], arrays[labels]
    raise Damaged(path, f"it has neither {' and '.join(ours)} nor {' and '.join(keras)} in it")


def _checked(images: Array, labels: Array, files: tuple[Path, ...]) -> tuple[Array, Array]:
    where = files[0]
    if images.dtype != np.uint8 or images.ndim < 2 or images.size == 0:
        raise Damaged(where, f"its images are {images.dtype} of shape {images.shape} instead of unsigned bytes")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (len(images),):
        raise Damaged(where, f"it has {len(images)} images but labels of shape {labels.shape} come with them")
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() > 255:
        raise Damaged(files[-1], f"its labels are {labels.dtype} instead of numbers from 0 to 255")
    return images.reshape(len(images), -1), labels.astype(np.uint8)
