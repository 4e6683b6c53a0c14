"""Image data sets and random features as perceptron problems.

`load` finds a data set where the user already has it (a folder named by `SOLSPACE_DATA`, those of torchvision, Keras and Debian),
else downloads it once; `Perceptron.from_data` draws a random instance from it.

>>> import solspace as ss
>>> X, y = ss.data.load("digits", classes=(3, 8))
>>> ss.Perceptron.from_data(X, y, alpha=0.5, rng=0)
Perceptron(n=64, m=32, patterns float32, binary weights, log potential, T = 0.5, margin 0)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from solspace.data.catalogue import CATALOGUE, DataSet, data_set
from solspace.data.instances import PREPROCESSING, Preprocessing, random_features, subset
from solspace.data.search import SPLITS, Source, advice, download_folder, fetch, find
from solspace.numerics.arrays import Array
from solspace.system.checks import one_of

__all__ = [
    "CATALOGUE",
    "PREPROCESSING",
    "Images",
    "Preprocessing",
    "Source",
    "download_folder",
    "fetch",
    "find",
    "load",
    "random_features",
    "subset",
]


class Images(NamedTuple):
    """Images and labels.

    Parameters
    ----------
    X : ndarray
        (k, d) pixels or patterns.
    y : ndarray
        (k,) labels.
    """

    X: Array
    y: Array


def load(
    name: str,
    classes: tuple[int, int] | str | None = None,
    preprocess: str = "centred",
    *,
    split: str = "train",
    folder: str | os.PathLike[str] | None = None,
    download: bool = True,
) -> Images:
    """Load an image data set.

    Parameters
    ----------
    name : {"mnist", "fashion", "cifar10", "digits"}
        The data set; "digits" comes with scikit-learn.
    classes : (int, int) or "all", optional
        Classes to keep, labelled -1 and +1 in this order; by default (3, 8), for "fashion" (5, 7). "all" keeps every class
        with its own number as label.
    preprocess : {"centred", "raw", "binarised"}, default "centred"
        Pixels/255 minus their mean over these images with rows rescaled to norm √d, pixels/255, or the sign of the centred
        pixel.
    split : {"train", "test"}, default "train"
        Split of the data set.
    folder : str or path-like, optional
        Folder to search instead of `SOLSPACE_DATA` and the usual places.
    download : bool, default True
        Whether to download what is not found; never into a `folder` that is given.

    Returns
    -------
    Images
        (X, y): images (k, d) and labels (k,), in the original order.

    Raises
    ------
    FileNotFoundError
        If the data set is neither found nor downloaded.

    Examples
    --------
    >>> X, y = load("digits", classes=(3, 8), preprocess="raw")
    >>> X.shape, float(X.max()), np.unique(y)
    ((357, 64), 1.0, array([-1,  1], dtype=int8))
    """
    data = data_set(name)
    one_of(PREPROCESSING)("preprocess", preprocess)
    one_of(SPLITS)("split", split)
    kept = _numbers(data.classes if classes is None else classes)
    X, labels = _digits(split) if data.name == "digits" else _read(data, kept, split, folder, download)
    if len(kept) == 10:
        y = labels.astype(np.int64)
    else:
        chosen = np.isin(labels, kept)
        X, y = X[chosen], np.where(labels[chosen] == kept[1], np.int8(1), np.int8(-1))
    return Images(Preprocessing.learn(preprocess, X)(X), y)


def _numbers(classes: tuple[int, int] | str) -> tuple[int, ...]:
    if isinstance(classes, str) and classes == "all":
        return tuple(range(10))
    try:
        first, second = map(int, () if isinstance(classes, str) else classes)
    except (TypeError, ValueError):
        raise ValueError(f"classes must be two numbers, 'all' or None; got {classes!r}.") from None
    if first == second or not (0 <= first <= 9 and 0 <= second <= 9):
        raise ValueError(f"classes must be two different numbers from 0 to 9; got {classes!r}.")
    return first, second


def _read(
    data: DataSet, classes: tuple[int, ...], split: str, folder: str | os.PathLike[str] | None, download: bool
) -> tuple[Array, Array]:
    partial = []
    for source in find(data.name, folder, split):
        images, labels = source.read()
        found = np.unique(labels).tolist()
        if set(found).issuperset(classes):
            return images, labels
        partial.append(f"{source} has only the classes {', '.join(map(str, found))}")
    if folder is None and download:
        fetch(data.name, split=split)
        return _read(data, classes, split, download_folder(), False)
    place = download_folder() if folder is None else Path(folder).expanduser()
    missing = "; ".join(partial) or f"{data.name} ({split}) was not found" + (f" in {folder}" if folder else "")
    raise FileNotFoundError(f"{missing}: {advice(data, split, place / data.folder)}.")


def _digits(split: str) -> tuple[Array, Array]:
    if split != "train":
        raise ValueError("digits has no test split; hold out a part of it.")
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32), labels
