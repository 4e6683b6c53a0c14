"""Find images where users already have them, or download them once.

Folders are tried in this order: the one given, `SOLSPACE_DATA` (several, separated as in `PATH`), our download folder, the usual
places of torchvision, Keras and Debian. In each of them the layouts of torchvision, Keras, Debian, CIFAR's own site and ours
are recognised. MNIST and FashionMNIST use the same file names: where the folder's name says neither, the checksum of the
labels decides.

Downloads are pooch's, with checksums verified and mirrors tried in turn. What has arrived of a file is kept beside its place
as `.part`, and the next try asks the server for the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from solspace.data.catalogue import CATALOGUE, FASHION, DataSet, Download, data_set
from solspace.data.formats import batch_number, idx_sha256, read_cifar, read_cifar_archive, read_idx
from solspace.numerics.arrays import Array
from solspace.system.arrays import Damaged, read_npz
from solspace.system.checks import install, unknown
from solspace.system.progress import progress

VARIABLE = "SOLSPACE_DATA"
SPLITS = ("train", "test")
_IDX = {
    "mnist": ("MNIST/raw", "mnist/raw", "mnist", "MNIST", "", "raw"),
    "fashion": (
        "FashionMNIST/raw",
        "fashion-mnist",
        "fashion_mnist",
        "fashionmnist",
        "fashion",
        "FashionMNIST",
        "",
        "raw",
    ),
}
"""Folders with idx files; "" and "raw" where the user named the folder."""
_NPZ = {
    "mnist": ("mnist.npz", "mnist_{split}*.npz"),
    "fashion": ("fashion-mnist.npz", "fashion_mnist.npz", "fashionmnist_{split}*.npz", "fashion_{split}*.npz"),
    "cifar10": ("cifar10_{split}*.npz",),
}
_CIFAR_FOLDERS = ("cifar-10-batches-py*", "cifar-10-batches-py*/cifar-10-batches-py", "cifar-10-batches-bin")
_CIFAR_ARCHIVES = ("cifar-10-python.tar.gz", "cifar-10-batches-py*", "cifar-10-binary.tar.gz")
_TIMEOUT = (10, 60)
_CHUNK = 1 << 16


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
    for root, named in folders(folder):
        try:
            for kind, files in _sources(data, root, named, split):
                found.setdefault(tuple(path.absolute() for path in files), Source(data.name, split, kind, files))
        except PermissionError:
            continue
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


def fetch(name: str, folder: str | os.PathLike[str] | None = None, split: str = "train") -> list[Path]:
    """Return the files of a data set; those that are not there are downloaded.

    Parameters
    ----------
    name : str
        Data set.
    folder : str or path-like, optional
        Folder for the files. If None, `download_folder`.
    split : {"train", "test"}, default "train"
        Split of the data set.

    Returns
    -------
    list of Path
        The files; none for a data set that comes with scikit-learn.

    Raises
    ------
    FileNotFoundError
        If a file could not be downloaded; the message says which files to put where.

    Examples
    --------
    >>> fetch("digits")
    []
    """
    data = data_set(name)
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    place = (download_folder() if folder is None else Path(folder).expanduser()) / data.folder
    return [_retrieve(data, split, each, place) for each in data.downloads.get(split, ())]


def advice(data: DataSet, split: str, place: Path) -> str:
    """Return which files to put where, as the end of a sentence."""
    files = data.downloads[split]
    names = " and ".join(each.file for each in files)
    origin = files[0].urls[0].rpartition("/")[0]
    return f"put {names} (from {origin}/) into {place}, or set {VARIABLE} to a folder that has them"


def _named() -> list[Path]:
    return [Path(text).expanduser() for text in os.environ.get(VARIABLE, "").split(os.pathsep) if text]


def _sources(data: DataSet, root: Path, named: bool, split: str) -> Iterator[tuple[str, tuple[Path, ...]]]:
    """Yield format and files of a data set below `root`."""
    for inside in _IDX.get(data.name, ()):
        files = _idx_files(root / inside, split) if named or inside not in ("", "raw") else ()
        if files and (inside not in ("", "raw") or _belongs(data, root / inside, files[1])):
            yield "idx", files
    if data.name == "cifar10":
        roots = (root, root / "cifar10", root / "CIFAR10")
        for folder in (*_matches(roots, _CIFAR_FOLDERS), *((root,) if named else ())):
            yield from (("cifar batches", files) for files in _batches(folder, split) if files)
        yield from (("cifar archive", (path,)) for path in _matches(roots, _CIFAR_ARCHIVES) if path.is_file())
    patterns = [pattern.format(split=split) for pattern in _NPZ.get(data.name, ())]
    yield from (("npz", (path,)) for path in _matches((root,), patterns) if path.is_file())


def _matches(roots: tuple[Path, ...], patterns: Any) -> list[Path]:
    return [path for root in roots for pattern in patterns for path in sorted(root.glob(pattern))]


def _idx_files(folder: Path, split: str) -> tuple[Path, ...]:
    stem, files = "train" if split == "train" else "t10k", []
    for kind in ("images-idx3", "labels-idx1"):
        names = [f"{stem}-{word}-ubyte{end}" for word in (kind, kind.replace("-idx", ".idx")) for end in ("", ".gz")]
        files += [folder / name for name in names if (folder / name).is_file()][:1]
    return tuple(files) if len(files) == 2 else ()


def _belongs(data: DataSet, folder: Path, labels: Path) -> bool:
    """Return whether idx files in a folder of any name hold `data`."""
    words = {part.lower().replace("-", "").replace("_", "") for part in folder.absolute().parts[-3:]}
    if words & {"fashion", "fashionmnist"}:
        return data is FASHION
    try:
        checksum = idx_sha256(read_idx(labels, data.limit))
    except ValueError:
        checksum = ""
    return (checksum == FASHION.labels_sha256) == (data is FASHION)


def _batches(folder: Path, split: str) -> Iterator[tuple[Path, ...]]:
    """Yield the batches of CIFAR-10 in a folder in their order: the pickles, and those in binary."""
    numbered = [(batch_number(path.name, split), path) for path in folder.glob("*_batch*") if path.is_file()]
    for end in ("", ".bin"):
        yield tuple(
            path for _, path in sorted(pair for pair in numbered if pair[0] is not None and pair[1].suffix == end)
        )


def _from_npz(path: Path, split: str, limit: int) -> tuple[Array, Array]:
    ours, keras = ("images", "labels"), (f"x_{split}", f"y_{split}")
    arrays = read_npz(path, (*ours, *keras), limit)
    for images, labels in (ours, keras):
        if images in arrays and labels in arrays:
            return arrays[images], arrays[labels]
    raise Damaged(path, f"it has neither {' and '.join(ours)} nor {' and '.join(keras)} in it")


def _checked(images: Array, labels: Array, files: tuple[Path, ...]) -> tuple[Array, Array]:
    if images.dtype != np.uint8 or images.ndim < 2 or images.size == 0:
        raise Damaged(files[0], f"its images are {images.dtype} of shape {images.shape} instead of unsigned bytes")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (len(images),):
        raise Damaged(files[0], f"it has {len(images)} images but labels of shape {labels.shape} come with them")
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() > 255:
        raise Damaged(files[-1], f"its labels are {labels.dtype} instead of numbers from 0 to 255")
    return images.reshape(len(images), -1), labels.astype(np.uint8)


def _retrieve(data: DataSet, split: str, item: Download, place: Path) -> Path:
    try:
        import pooch
    except ImportError:
        raise FileNotFoundError(
            f"{data.name} is not on this machine and downloading it needs pooch: {install('data')}, "
            f"or {advice(data, split, place)}."
        ) from None
    pooch.get_logger().setLevel("WARNING")
    part, problems = place / f"{item.file}.part", []
    for url in item.urls:
        for last_try in (False, True):
            try:
                return Path(pooch.retrieve(url, item.checksum, item.file, place, downloader=_resuming(part)))
            except OSError as error:  # requests' errors are OSErrors
                problems.append(f"{url.split('/')[2]}: {type(error).__name__}")
                break
            except ValueError:  # the checksum: what was resumed may have been another file's beginning
                part.unlink(missing_ok=True)
                if last_try:
                    problems.append(f"{url.split('/')[2]}: what it sent has another checksum")
    raise FileNotFoundError(
        f"{data.name} is not on this machine and could not be downloaded ({'; '.join(problems)}): "
        f"{advice(data, split, place)}."
    )


def _resuming(part: Path) -> Any:
    """Return a downloader for pooch that keeps what arrives in the file `part` and asks only for what is missing."""

    def download(url: str, output: Any, pooch: Any) -> None:
        import requests

        part.parent.mkdir(parents=True, exist_ok=True)
        if part.is_symlink() or part.is_fifo():  # not ours: the target of a link must not be written to
            part.unlink()
        have = part.stat().st_size if part.exists() else 0
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            if response.status_code != 416:  # 416: nothing is missing; the checksum decides
                response.raise_for_status()
                _keep(response, part, have, url)
        os.replace(part, output)

    return download


def _keep(response: Any, part: Path, have: int, url: str) -> None:
    resumed = response.status_code == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
    length, arrived = int(response.headers.get("Content-Length", 0)), 0
    with open(part, "ab" if resumed else "wb") as file, progress(length, url.rpartition("/")[2]) as bar:
        for chunk in response.iter_content(_CHUNK):
            file.write(chunk)
            arrived += len(chunk)
            bar.advance(len(chunk))
    if arrived < length:
        raise ConnectionError(f"{url} broke off after {arrived} of {length} bytes")
