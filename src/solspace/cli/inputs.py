"""The options that state a problem, for the verbs that take one, and the problem that they state."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from solspace.cli.app import say
from solspace.cli.completion import Offer, completing, image_sets, words
from solspace.cli.data import image_problem
from solspace.cli.files import check_two, meaning, of_two, read_data, read_table
from solspace.cli.rules import Rule
from solspace.data.catalogue import CATALOGUE
from solspace.data.instances import PREPROCESSING, SCALES, drawn, off_scale, scale, signs
from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG
from solspace.problem import ENSEMBLES, Perceptron
from solspace.system.plain import Values


def option(panel: str, text: str, *names: str, offer: Callable[[], Offer] | None = None) -> Any:
    """Return an option of a verb, in a panel of its help; `offer` is what the shell completes behind it."""
    complete = None if offer is None else completing(offer)
    return typer.Option(*names, help=text, rich_help_panel=panel, autocompletion=complete)


_YOURS = "Your data"
Ensemble = Annotated[
    str, option("Random instance", "Entries of the patterns: binary or gaussian.", offer=words(ENSEMBLES))
]
Patterns = Annotated[Path | None, option(_YOURS, "Patterns (m, n): .npy .npz .csv .tsv, also .gz, .parquet")]
Labels = Annotated[
    Path | None, option(_YOURS, "Labels (m,) of two classes, in a file of their own; y of the .npz unless given.")
]
Data = Annotated[
    str | None,
    option(
        _YOURS,
        "A file with patterns and labels (.csv .tsv, also .gz, .parquet .npz), or an image set: mnist, fashion, cifar10, digits.",
        offer=image_sets,
    ),
]
Label = Annotated[
    str | None, option(_YOURS, "The column of that file with the labels: its name, or its number from 0.")
]
Index = Annotated[
    str | None, option(_YOURS, "A column to leave out; one without a name that counts rows is left out anyway.")
]
Classes = Annotated[str | None, option(_YOURS, "Two classes among the labels, for -1 and +1, as in 3,8.")]
Features = Annotated[int | None, option(_YOURS, "How many random linear features to take of the patterns.")]
Preprocess = Annotated[
    str | None,
    option(_YOURS, "centred, raw or binarised; images are centred unless given.", offer=words(PREPROCESSING)),
]
Scale = Annotated[
    str | None,
    option(_YOURS, "none, centre (each feature) or norm (rows to norm √n), of patterns of yours.", offer=words(SCALES)),
]


def is_file(data: str | None) -> bool:
    """Return whether `--data` names a file rather than an image set.

    >>> is_file("table.csv"), is_file("mnist"), is_file(None)
    (True, False, False)
    """
    return data is not None and data.lower() not in CATALOGUE and (Path(data).suffix != "" or Path(data).is_file())


RULES = (
    Rule("seed", lambda o: o.seed >= 0, "must not be negative"),
    Rule("data", lambda o: o.patterns is None, "cannot stand beside --patterns: give one of them"),
    Rule("labels", lambda o: o.patterns or is_file(o.data), "needs --patterns, or a file as --data"),
    Rule("label index", lambda o: is_file(o.data), "names a column: it needs a file as --data"),
    Rule("label", lambda o: o.labels is None, "cannot stand beside --labels: give one of them"),
    Rule("classes", lambda o: o.data or o.labels or o.patterns, "needs --data, or --patterns with --labels"),
    Rule("features preprocess", lambda o: o.data or o.patterns, "needs --data or --patterns"),
    Rule("scale", lambda o: o.patterns or is_file(o.data), "needs --patterns, or a file as --data"),
    Rule("scale", lambda o: o.preprocess is None, "cannot stand beside --preprocess, which scales as well"),
    Rule(
        "n ensemble", lambda o: not (o.data or o.patterns), "belongs to random instances, not to --data or --patterns"
    ),
)
"""Of the options that state a problem, for every verb that takes one."""


class Posed(NamedTuple):
    """A problem, and what its user should hear about how it came from the data."""

    problem: Perceptron
    labels: dict[str, str]
    """Which labels of the user's own are taken for -1 and +1."""
    hint: str = ""
    """What to do about the scale of the data, in a sentence."""

    def tell(self, quiet: bool) -> Values:
        """Say it, unless nobody listens; return it for the report."""
        if self.labels and not quiet:
            say(f"labels: {self.labels['-1']} is taken for -1, {self.labels['+1']} for +1")
        if self.hint and not quiet:
            say(f"hint: {self.hint}")
        return {name: told for name, told in (("labels", self.labels), ("hint", self.hint)) if told}


@dataclass(frozen=True)
class Stated:
    """A problem as the options of a verb state it."""

    n: int
    load: float
    """Of a random instance where `alpha` is not given."""
    alpha: float | None
    ensemble: str
    patterns: Path | None
    labels: Path | None
    data: str | None
    label: str | None
    index: str | None
    classes: str | None
    features: int | None
    preprocess: str | None
    scale: str | None

    def posed(self, target: Target, rng: RNG) -> Posed:
        """Return the problem under `target`, drawn with `rng` where anything is drawn."""
        if self.patterns is not None:
            X, y = read_data(self.patterns, self.labels)
        elif self.data is not None and is_file(self.data):
            X, y = read_table(Path(self.data), self.label, self.index, self.labels)
        elif self.data is not None:
            load, how = 0.4 if self.alpha is None else self.alpha, self.preprocess or "centred"
            images = self.data, self.classes, load, target
            return Posed(image_problem(*images, features=self.features, preprocess=how, rng=rng), {})
        else:
            load = self.load if self.alpha is None else self.alpha
            _check_room(self.n, load, self.ensemble)
            return Posed(Perceptron.random(self.n, load, target, self.ensemble, rng=rng), {})
        if y is None:
            if self.classes is not None:
                raise ValueError("--classes chooses among labels, and there are none: give --labels.")
            taken = {}
        elif self.classes is None:
            if y.size == len(X):
                check_two(str(self.labels or self.data or self.patterns), y.ravel())
            taken = meaning(y)
        else:
            X, y, taken = of_two(X, y, self.classes)
        problem = self._own(X, None if y is None else signs(y, len(X)), target, rng)
        asked = self.preprocess is not None or self.scale == "none"
        return Posed(problem, taken, "" if asked else scale_hint(problem.patterns))

    def _own(self, X: Array, labels: Array | None, target: Target, rng: RNG) -> Perceptron:
        """Return the problem of patterns (m, n) with labels ±1, as they are or as a pool to draw from."""
        rows = X if self.scale is None else scale(Perceptron(X).patterns, self.scale)
        if (self.alpha, self.features, self.preprocess) == (None, None, None):
            return Perceptron(rows, labels, target=target)
        if labels is not None:
            return Perceptron.from_data(rows, labels, self.alpha, self.features, self.preprocess, target, rng)
        Perceptron(X)  # its checks
        every = np.ones(len(rows), np.int8)
        patterns, _ = drawn(
            np.asarray(rows), every, self.alpha, features=self.features, preprocess=self.preprocess, rng=rng
        )
        return Perceptron(patterns, target=target)


def _check_room(n: int, load: float, ensemble: str) -> None:
    """Raise ValueError where the patterns of a random instance exceed the memory of the machine."""
    if not hasattr(os, "sysconf"):
        return
    size = float(n) * n * load * (1 if ensemble == "binary" else 4)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size > memory:
        raise ValueError(
            f"{n} weights at load {load:g} have {size / 1e9:,.0f} GB of patterns, and this machine has "
            f"{memory / 1e9:,.0f} GB of memory: choose a smaller --n."
        )


def scale_hint(patterns: Array) -> str:
    """Return what to do where stabilities on patterns (m, n) are far from order one; '' where they are not.

    >>> scale_hint(np.full((2, 3), 0.01))[:63]
    'stabilities on these patterns come out 100 times too small: mar'
    """
    factor = off_scale(patterns)
    if factor == 1.0 or not factor:
        return ""
    off = f"{factor:.3g} times too large" if factor > 1 else f"{1 / factor:.3g} times too small"
    return (
        f"stabilities on these patterns come out {off}: margin and temperature are meant for rows with |x|² = n. --scale norm "
        "rescales the rows, --preprocess centred centres the features as well, --scale none keeps all as it is."
    )
