"""Images are found in every layout users have, and come out the same from each."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from terminal import invoke

import solspace as ss
from solspace.data.catalogue import idx_header

RANDOM = np.random.default_rng(0)
PICTURES = RANDOM.integers(0, 256, (60, 28, 28), dtype=np.uint8)
COLOURS = RANDOM.integers(0, 256, (60, 3072), dtype=np.uint8)
LABELS = (np.arange(60) * 7 % 10).astype(np.uint8)


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what this machine has."""
    home = tmp_path / "home"
    home.mkdir()
    for variable, value in {"HOME": home, "XDG_CACHE_HOME": home / ".cache", "USERPROFILE": home}.items():
        monkeypatch.setenv(variable, str(value))
    monkeypatch.delenv("SOLSPACE_DATA", raising=False)
    monkeypatch.chdir(home)


def idx(folder: Path, split: str = "train", packed: bool = False, dots: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in (("images-idx3-ubyte", PICTURES), ("labels-idx1-ubyte", LABELS)):
        content = idx_header(array.shape) + array.tobytes()
        name = f"{split}-{name}".replace("-idx", ".idx") if dots else f"{split}-{name}"
        (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)


def batches(folder: Path, binary: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, 6):
        part = slice(12 * (number - 1), 12 * number)
        if binary:
            rows = np.column_stack([LABELS[part], COLOURS[part]])
            (folder / f"data_batch_{number}.bin").write_bytes(rows.tobytes())
        else:
            content = {"data": COLOURS[part], "labels": LABELS[part].tolist()}
            (folder / f"data_batch_{number}").write_bytes(pickle.dumps(content, 4))


def archive(path: Path) -> None:
    batches(path.parent / "unpacked" / "cifar-10-batches-py")
    with tarfile.open(path, "w:gz") as tar:
        for file in sorted((path.parent / "unpacked").rglob("data_batch_*"), reverse=True):
            tar.add(file, arcname=f"cifar-10-batches-py/{file.name}")


def ours(path: Path, images: np.ndarray, keep: tuple[int, ...]) -> None:
    chosen = np.isin(LABELS, keep)
    np.savez_compressed(
        path,
        images=images.reshape(60, -1)[chosen],
        labels=LABELS[chosen],
        index=np.flatnonzero(chosen).astype(np.uint16),
    )


LAYOUTS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "torchvision MNIST": ("mnist", lambda root: idx(root / "MNIST/raw")),
    "torchvision MNIST packed": ("mnist", lambda root: idx(root / "MNIST/raw", packed=True)),
    "LeCun's spelling": ("mnist", lambda root: idx(root / "mnist", dots=True)),
    "Keras MNIST": ("mnist", lambda root: np.savez(root / "mnist.npz", x_train=PICTURES, y_train=LABELS)),
    "our MNIST": ("mnist", lambda root: ours(root / "mnist_train_3_8.npz", PICTURES, (3, 8))),
    "torchvision Fashion": ("fashion", lambda root: idx(root / "FashionMNIST/raw")),
    "Keras Fashion": ("fashion", lambda root: idx(root / "fashion-mnist", packed=True)),
    "our Fashion": ("fashion", lambda root: ours(root / "fashionmnist_train_5_7.npz", PICTURES, (5, 7))),
    "CIFAR python": ("cifar10", lambda root: batches(root / "cifar-10-batches-py")),
    "CIFAR Keras 3": ("cifar10", lambda root: batches(root / "cifar-10-batches-py-target/cifar-10-batches-py")),
    "CIFAR binary": ("cifar10", lambda root: batches(root / "cifar-10-batches-bin", binary=True)),
    "CIFAR archive": ("cifar10", lambda root: archive(root / "cifar-10-python.tar.gz")),
    "our CIFAR": ("cifar10", lambda root: ours(root / "cifar10_train_3_8.npz", COLOURS, (3, 8))),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("how", ["variable", "option"])
def test_every_layout_gives_the_same_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, how: str
) -> None:
    name, make = LAYOUTS[layout]
    root = tmp_path / "files"
    root.mkdir()
    make(root)
    if how == "variable":
        monkeypatch.setenv("SOLSPACE_DATA", os.pathsep.join(["/does/not/exist", str(root)]))
    classes = (5, 7) if name == "fashion" else (3, 8)
    X, y = ss.data.load(name, classes, "raw", folder=root if how == "option" else None, download=False)
    chosen = np.isin(LABELS, classes)
    pool = COLOURS if name == "cifar10" else PICTURES.reshape(60, -1)
    np.testing.assert_allclose(X, pool[chosen] / 255, rtol=1e-6)
    np.testing.assert_array_equal(y, np.where(LABELS[chosen] == classes[1], 1, -1))


@pytest.mark.parametrize(
    ("place", "name", "make"),
    [
        ("home/.keras/datasets", "mnist", LAYOUTS["Keras MNIST"][1]),
        ("home/data", "fashion", LAYOUTS["torchvision Fashion"][1]),
        ("home/.cache/solspace/data", "cifar10", LAYOUTS["CIFAR archive"][1]),
    ],
)
def test_usual_places_are_searched(tmp_path: Path, place: str, name: str, make: Callable[[Path], None]) -> None:
    (tmp_path / place).mkdir(parents=True)
    make(tmp_path / place)
    assert len(ss.data.load(name, download=False).y) == 12


def test_the_test_split_is_its_own(tmp_path: Path) -> None:
    idx(tmp_path / "MNIST/raw", split="t10k")
    assert len(ss.data.load("mnist", "all", split="test", folder=tmp_path).y) == 60
    with pytest.raises(FileNotFoundError, match=r"train-images-idx3-ubyte.gz and train-labels"):
        ss.data.load("mnist", folder=tmp_path)


def test_a_source_that_lacks_the_classes_is_passed_over(tmp_path: Path) -> None:
    idx(tmp_path / "MNIST/raw")
    ours(tmp_path / "mnist_train_3_8.npz", PICTURES, (3, 8))
    assert len(ss.data.find("mnist", tmp_path)) == 2
    (tmp_path / "MNIST/raw/train-images-idx3-ubyte").unlink()
    assert len(ss.data.load("mnist", (8, 3), folder=tmp_path).y) == 12
    with pytest.raises(FileNotFoundError, match="has only the classes 3, 8"):
        ss.data.load("mnist", (0, 1), folder=tmp_path)


def test_mnist_and_fashion_are_not_mistaken_for_each_other(tmp_path: Path) -> None:
    idx(tmp_path / "FashionMNIST" / "raw")
    assert not ss.data.find("mnist", tmp_path)
    assert ss.data.find("fashion", tmp_path)


def test_damaged_files_are_named(tmp_path: Path) -> None:
    idx(tmp_path / "MNIST/raw")
    path = tmp_path / "MNIST/raw/train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match="train-images-idx3-ubyte cannot be read"):
        ss.data.load("mnist", folder=tmp_path)
    np.savez(tmp_path / "fashionmnist_train.npz", x_train=PICTURES, y_train=LABELS[:-1])
    with pytest.raises(ValueError, match="its images and labels are"):
        ss.data.load("fashion", folder=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "minst"}, "did you mean 'mnist'"),
        ({"name": "digits", "classes": (3, 3)}, "two different numbers"),
        ({"name": "digits", "classes": (3, 12)}, "from 0 to 9"),
        ({"name": "digits", "classes": (1, 2, 3)}, "two different numbers"),
        ({"name": "digits", "classes": "some"}, "two different numbers"),
        ({"name": "digits", "preprocess": "centered"}, "did you mean 'centred'"),
        ({"name": "digits", "split": "val"}, "unknown split"),
        ({"name": "digits", "split": "test"}, "no test split"),
    ],
)
def test_wrong_arguments_get_a_sentence(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ss.data.load(**arguments)  # type: ignore[arg-type]


def test_nothing_of_the_images_is_in_the_package() -> None:
    package = Path(ss.__file__).parent
    kinds = {path.suffix for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert not kinds & {".npz", ".npy", ".gz", ".bin", ".pkl", ".idx", ".png"}


def command(*words: str) -> Any:
    return invoke("data", *words)


def test_command_prepares_what_is_missing(tmp_path: Path) -> None:
    idx(tmp_path / "MNIST/raw")
    result = command("prepare", "mnist", "digits", "--folder", str(tmp_path), "--json")
    rows = json.loads(result.stdout)
    assert [row["downloaded"] for row in rows] == [False, True]
    assert "train-images-idx3-ubyte" in rows[0]["files"][0]
    assert command("prepare", "minst").exit_code == 2


def test_images_for_the_verbs_that_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from solspace.cli.problem import ProblemOptions

    idx(tmp_path / "MNIST/raw")
    monkeypatch.setenv("SOLSPACE_DATA", str(tmp_path))
    options = ProblemOptions(data="mnist", classes=("3", "8"), alpha=0.01)
    problem, _ = options.build(ss.Target(), 0, n=11, alpha=0.3, quiet=True)
    assert (problem.n, problem.m) == (784, 8)
    refused = invoke("sample", "--data", "mnist", "--classes", "3-8")
    assert refused.exit_code == 2
    assert "such as 3,8" in refused.stderr


def test_command_shows_what_was_found(tmp_path: Path) -> None:
    idx(tmp_path / "MNIST/raw")
    batches(tmp_path / "cifar-10-batches-py")
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").write_bytes(b"nonsense")
    result = command("--folder", str(tmp_path), "--json")
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert rows["mnist"]["images"] == 60
    assert rows["mnist"]["original"] is None
    assert rows["digits"]["found"]
    assert not rows["fashion"]["found"]
    assert "data_batch_3 cannot be read" in rows["cifar10"]["problem"]
    assert "60" in command("--folder", str(tmp_path)).stdout
