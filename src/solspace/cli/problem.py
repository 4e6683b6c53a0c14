"""The problem that options state: a random instance, an image data set, or the user's own files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import solspace as ss
from solspace.cli.data import image_sets
from solspace.cli.options import Rule, option
from solspace.cli.output import say
from solspace.data.catalogue import CATALOGUE
from solspace.data.instances import PREPROCESSING, SCALES, drawn, scale
from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG
from solspace.problem import ENSEMBLES
from solspace.system.checks import number, unknown
from solspace.system.files import TABLES, Damaged, read_arrays
from solspace.system.plain import Values
from solspace.system.tables import position, read_table

RANDOM = "Random instance"
OFF = 3.0  # factor by which stabilities may differ from order one without a hint
PATTERNS, LABELS = ("patterns", "X"), ("labels", "y")  # names of arrays in a .npz


def is_file(data: str | None) -> bool:
    """Return whether `--data` names a file rather than an image set.

    >>> is_file("table.csv"), is_file("mnist"), is_file(None)
    (True, False, False)
    """
    return data is not None and data.lower() not in CATALOGUE and (Path(data).suffix != "" or Path(data).is_file())


def _pair(option: str, text: str) -> tuple[str, str]:
    words = [word.strip() for word in text.split(",")]
    if len(words) != 2 or words[0] == words[1]:
        raise ValueError(f"{option} must be two different labels such as 3,8 or cat,dog; got {text!r}.")
    return words[0], words[1]


@dataclass(frozen=True)
class ProblemOptions:
    """Where patterns and labels come from."""

    PANEL: ClassVar = "Your data"
    n: int | None = option(None, "Number of weights; 1001 or more by default, 15 to enumerate.", panel=RANDOM)
    alpha: float | None = option(
        None,
        "Load: constraints per weight; by default 0.3 to sample, 0.7 to solve, 0.4 for images, all of your patterns.",
        panel=RANDOM,
    )
    ensemble: str = option(
        "binary", "Entries of the patterns: binary or gaussian.", panel=RANDOM, offer=lambda: ENSEMBLES
    )
    patterns: Path | None = option(None, "Patterns (m, n): .npy .npz .csv .tsv, also .gz, .parquet")
    labels: Path | None = option(None, "Labels (m,) of two classes, in a file of their own; by default y of the .npz.")
    data: str | None = option(
        None,
        "A file with patterns and labels (.csv .tsv, also .gz, .parquet .npz), or an image set: mnist, fashion, cifar10, "
        "digits.",
        offer=image_sets,
    )
    label: str | None = option(None, "The column of that file with the labels: its name, or its number from 0.")
    index: str | None = option(None, "A column to leave out; one without a name that counts rows is left out anyway.")
    classes: tuple[str, str] | None = option(
        None, "Two classes among the labels, for -1 and +1, as in 3,8.", check=_pair
    )
    features: int | None = option(None, "How many random linear features to take of the patterns.")
    preprocess: str | None = option(
        None, "centred, raw or binarised; images are centred unless given.", offer=lambda: PREPROCESSING
    )
    scale: str | None = option(
        None, "none, centre (each feature) or norm (rows to norm √n), of patterns of yours.", offer=lambda: SCALES
    )

    intercept: float | None = option(
        None, "Width of the Gaussian prior of an intercept, for patterns of yours.", check=number(positive=True)
    )

    def build(self, target: ss.Target, rng: RNG, n: int, alpha: float, quiet: bool) -> tuple[ss.Perceptron, Values]:
        """Return the problem, drawn with `rng` where anything is drawn, and what its report says of the user's data.

        `n` and `alpha` are the defaults of a random instance. Unless `quiet`, the notes are printed as well.
        """
        if self.patterns is not None or is_file(self.data):
            problem, notes = self._from_files(target, rng)
            if not quiet and "labels" in notes:
                say(f"labels: {notes['labels']['-1']} is taken for -1, {notes['labels']['+1']} for +1")
            if not quiet and "hint" in notes:
                say(f"hint: {notes['hint']}")
            return problem, notes
        if self.data is not None:
            classes: Any = self.classes
            X, y = ss.data.load(self.data, classes, self.preprocess or "centred")
            alpha = 0.4 if self.alpha is None else self.alpha
            return ss.Perceptron.from_data(X, y, alpha, self.features, target=target, rng=rng), {}
        n, alpha = n if self.n is None else self.n, alpha if self.alpha is None else self.alpha
        return ss.Perceptron.random(n, alpha, target, self.ensemble, rng=rng), {}

    def _from_files(self, target: ss.Target, rng: RNG) -> tuple[ss.Perceptron, Values]:
        path, notes = self.patterns or Path(self.data or ""), Values()
        unlabelled = ValueError(
            f"{path} needs labels: say which column holds them with --label, or which file with --labels; "
            "patterns that need none go to --patterns."
        )
        if self.patterns is None and self.label is None and self.labels is None and _is_table(path):
            raise unlabelled
        X, y = read_data(path, self.labels, self.label, self.index)
        if y is not None:
            X, y, meaning = two_classes(X, y, self.classes, self.labels or path)
            notes = {"labels": meaning} if meaning else {}
        elif self.patterns is None:
            raise unlabelled
        elif self.classes is not None:
            raise ValueError("--classes chooses among labels, and there are none: give --labels.")
        if self.scale is not None:
            X = scale(ss.Perceptron(X).patterns, self.scale)
        if (self.alpha, self.features, self.preprocess) != (None, None, None):
            ss.Perceptron(X)  # its checks
            labels = np.ones(len(X), np.int8) if y is None else y
            X, y = drawn(X, labels, self.alpha, features=self.features, preprocess=self.preprocess, rng=rng)
        problem = ss.Perceptron(X, y, target=target, intercept=self.intercept)
        if self.preprocess is None and self.scale != "none" and (hint := scale_hint(problem.patterns)):
            notes["hint"] = hint
        return problem, notes


RULES = (
    Rule("data", lambda o: o.patterns is None, "cannot stand beside --patterns: give one of them"),
    Rule("labels", lambda o: o.patterns or is_file(o.data), "needs --patterns, or a file as --data"),
    Rule("label index", lambda o: is_file(o.data), "names a column: it needs a file as --data"),
    Rule("label", lambda o: o.labels is None, "cannot stand beside --labels: give one of them"),
    Rule("classes", lambda o: o.data or o.labels or o.patterns, "needs --data, or --patterns with --labels"),
    Rule("features preprocess", lambda o: o.data or o.patterns, "needs --data or --patterns"),
    Rule("intercept", lambda o: o.patterns or is_file(o.data), "needs --patterns, or a file as --data"),
    Rule("scale", lambda o: o.patterns or is_file(o.data), "needs --patterns, or a file as --data"),
    Rule("scale", lambda o: o.preprocess is None, "cannot stand beside --preprocess, which scales as well"),
    Rule("n ensemble", lambda o: not (o.data or o.patterns), "belongs to random instances: no --data, no --patterns"),
)


def about(problem: ss.Perceptron) -> Values:
    """Return what reports say of a problem."""
    found = {"n": problem.n, "m": problem.m, "alpha": problem.alpha, "target": problem.target.to_dict()}
    return found if problem.intercept is None else {**found, "intercept": problem.intercept}


def read_data(
    path: Path, labels: Path | None = None, label: str | None = None, index: str | None = None
) -> tuple[Array, Array | None]:
    """Return patterns (m, n) and labels (m,) from one file or two; None if there are no labels.

    In a table the labels are the column `label`; in a .npz the array of that name, one of `LABELS` by default; in a single
    array the column of that number.
    """
    y: Array | None = None
    if _is_table(path) and (label is not None or index is not None):
        X, y, _ = read_table(path, label, index)
    elif index is not None:
        raise ValueError(f"--index names a column of a table; {path} holds arrays.")
    else:
        arrays = read_arrays(path)
        if len(arrays) > 1 and label is not None and label not in arrays:
            raise Damaged(path, f"it has no array {label!r}; it holds {', '.join(list(arrays)[:6])}")
        if len(arrays) > 1 and (label is not None or set(LABELS) & set(arrays)):
            y = _one(path, arrays, LABELS if label is None else (label,))
        X = _one(path, {name: held for name, held in arrays.items() if name != label}, PATTERNS)
        if len(arrays) == 1 and label is not None:
            if X.ndim != 2 or X.shape[1] < 2:
                raise Damaged(path, f"its array has the shape {X.shape}, which has no column for labels")
            column = position(path, label, None, X.shape[1])
            X, y = np.delete(X, column, axis=1), X[:, column]
    if X.dtype.kind in "US":
        raise Damaged(path, "it holds words instead of numbers")
    if labels is not None:
        if y is not None:
            raise ValueError(f"{path} brings labels of its own: leave --labels out, or the labels out of the file.")
        y = _one(labels, read_arrays(labels), LABELS)
    if y is not None and y.dtype.kind == "U" and y.shape == (len(X) + 1,):
        y = y[1:]  # the title of the column
    return X, y


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith(TABLES)


def _one(path: Path, arrays: dict[str, Array], names: tuple[str, ...]) -> Array:
    """Return the array with one of `names`, or the only one there is."""
    there = [name for name in names if name in arrays] or (list(arrays) if len(arrays) == 1 else [])
    if len(there) != 1:
        held = ", ".join(list(arrays)[:6]) or "nothing"
        wanted = " or ".join(map(repr, names))
        raise Damaged(path, f"it holds several arrays or none ({held}); name one of them {wanted}")
    return arrays[there[0]]


def two_classes(X: Array, y: Array, wanted: tuple[str, str] | None, path: Path) -> tuple[Array, Array, dict[str, str]]:
    """Return the rows and labels ±1 of two classes, and which is which; {} if labels are ±1 already.

    The classes are those in `wanted`, -1 first, or the only two that there are, the smaller one -1.

    >>> two_classes(np.arange(6).reshape(3, 2), np.array(["cat", "dog", "cow"]), ("dog", "cat"), Path("y.csv"))[1:]
    (array([ 1, -1], dtype=int8), {'-1': 'dog', '+1': 'cat'})
    """
    if y.shape not in ((len(X),), (len(X), 1)):
        raise ValueError(f"labels must have shape ({len(X)},), one label for each row of the patterns; got {y.shape}.")
    y = y.reshape(len(X))
    there = {f"{value:g}" if y.dtype.kind == "f" else str(value): value for value in np.unique(y)}
    if wanted is None:
        missing = np.isnan(y) if y.dtype.kind == "f" else y.astype(str) == ""
        if missing.any():
            lacking = f"no label in {missing.sum()} of {len(y)} rows (row {int(np.argmax(missing)) + 1} first)"
            raise ValueError(f"{path} has {lacking}: drop or fill them.")
        if len(there) == 1:
            raise ValueError(
                f"{path} has labels of one class only: every one is {next(iter(there))}. There must be two."
            )
        if len(there) > 2:
            first, second, *_ = there
            listed = ", ".join([*there][:6]) + ", ..." * (len(there) > 6)
            raise ValueError(
                f"{path} has {len(there)} classes ({listed}): choose two, as in --classes {first},{second}."
            )
    low, high = wanted or there
    for word in (low, high):
        if word not in there:
            raise unknown("class", word, [*there][:20])
    chosen = np.isin(y, (there[low], there[high]))
    labels = np.where(y[chosen] == there[high], np.int8(1), np.int8(-1))
    signs = wanted is None and y.dtype.kind in "if" and (low, high) == ("-1", "1")
    return X if chosen.all() else X[chosen], labels, {} if signs else {"-1": low, "+1": high}


def scale_hint(patterns: Array) -> str:
    """Return what to do where stabilities on patterns (m, n) are far from order one; '' where they are not.

    >>> scale_hint(np.full((2, 3), 0.01))[:63]
    'stabilities on these patterns come out 100 times too small: mar'
    """
    factor = float(np.sqrt(np.einsum("ij,ij->", patterns, patterns, dtype=np.float64) / patterns.size))
    if 1 / OFF <= factor <= OFF or not factor:
        return ""
    off = f"{factor:.3g} times too large" if factor > 1 else f"{1 / factor:.3g} times too small"
    return (
        f"stabilities on these patterns come out {off}: margin and temperature are meant for rows with |x|² = n. --scale norm "
        "rescales the rows, --preprocess centred centres the features as well, --scale none keeps all as it is."
    )
