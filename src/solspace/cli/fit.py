"""`solspace fit`: a low-bit classifier of a table; `solspace classify`: its predictions for another one."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from solspace.cli.options import AS_JSON, argument, option, verb
from solspace.cli.output import Table, make_room, show, write_json, write_picture
from solspace.system.checks import unknown, whole
from solspace.system.files import replacing
from solspace.system.plain import Values
from solspace.system.progress import progress
from solspace.system.tables import read_table

FILES = ("model.npz", "classifier.h", "calibration.png", "report.json")
BINS, FEWEST = 10, 10  # of the calibration picture, and the least rows of a bin that is drawn


@verb()
def fit(
    table: Path = argument("Numbers and a column of labels: .csv .tsv, also .gz, .parquet", "TABLE"),
    label: str = option("y", "The column with the labels: its name, or its number from 0."),
    index: str | None = option(None, "A column to leave out."),
    levels: str = option("auto", "Weights: auto, binary, ternary, 3bit, 4bit, 5bit or 6bit.", offer=lambda: _levels()),
    single: str = option("ternary", "Weights of the C header: binary, ternary, 3bit, ...", offer=lambda: _levels()),
    folds: int = option(5, "Parts of the cross-validation.", check=whole(2, 100)),
    balanced: bool = option(False, "Give all classes the same weight."),
    seed: int = option(0, "Another seed, other samples.", check=whole(0, 2**32 - 1)),
    out: Path = option(Path("."), "Folder for model.npz, classifier.h, calibration.png and report.json."),
    as_json: bool = AS_JSON,
) -> None:
    """Fit a classifier with weights of a few bits: scores beside logistic regression, model, C header, calibration picture."""
    from solspace.learn import IntegerClassifier, LowBitClassifier
    from solspace.learn.lowbit import LEVELS

    for name in (levels, single):
        if name not in LEVELS and (name != "auto" or name is single):
            raise unknown("levels", name, LEVELS)
    make_room(out, FILES)
    X, y, names = read_table(table, label, index)
    assert y is not None
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2 or counts.min() < folds:
        raise ValueError(
            f"{table} needs two classes or more, each with at least {folds} rows; got {len(classes)}, the smallest of "
            f"{counts.min()} rows: is {label!r} the column of labels?"
        )
    weight = "balanced" if balanced else None
    model = LowBitClassifier(levels, class_weight=weight, random_state=seed)
    held = held_out(X, y, model, single, folds, seed, None if not as_json else False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    network: IntegerClassifier = model.to_single(single)
    scores = {name: _scores(p, y, classes) for name, p in held.items()}
    if names is not None and len(set(names)) == len(names):
        model.feature_names_in_ = np.array(names, object)
    model.save(out / FILES[0])
    network.to_c(out / FILES[1])
    write_picture(out / FILES[2], lambda figure: draw_calibration(figure.add_subplot(), held, y, classes), (5.0, 4.4))
    report = {
        "rows": len(y),
        "columns": X.shape[1],
        "classes": {str(k): int(c) for k, c in zip(classes, counts)},
        "folds": folds,
    }
    report |= {"scores": scores, "levels": model.levels_.tolist(), "bytes": network.size_bytes, "seed": seed}
    report |= {"warnings": [str(one.message) for one in caught]}
    write_json(out / FILES[3], report)
    rows = [(name, *(f"{value:.4f}" for value in found.values())) for name, found in scores.items()]
    title = f"{table.name}: {len(y)} rows, {X.shape[1]} columns, {len(classes)} classes; {folds}-fold cross-validation"
    notes = [f"note: {one.message}" for one in caught] + [
        f"wrote {', '.join(FILES)} to {out}; the network in C has {network.size_bytes} bytes"
    ]
    show(report, [Table(title, rows, ("", "accuracy", "Brier", "log loss"))], as_json, "\n".join(notes))


@verb()
def classify(
    model: Path = argument("A model.npz of `solspace fit`.", "MODEL"),
    table: Path = argument("Rows with the columns of the training table; in its order if they have no names.", "TABLE"),
    label: str | None = option(None, "A column with labels, to be compared; it is not used."),
    index: str | None = option(None, "A column to leave out."),
    out: Path = option(Path("labels.csv"), "File for the labels and the probabilities of all classes."),
    as_json: bool = AS_JSON,
) -> None:
    """Write the most probable class of every row, and the probabilities."""
    from solspace.learn import LowBitClassifier

    found = LowBitClassifier.load(model)
    X, y, _ = read_table(table, label, index, wanted=found.__dict__.pop("feature_names_in_", None))
    if X.ndim != 2 or X.shape[1] != found.n_features_in_:
        width = 1 if X.ndim == 1 else X.shape[1]
        hint = "" if label else "; a column of labels is left out by --label"
        raise ValueError(
            f"{table} has {width} columns of numbers, but the model was fitted to {found.n_features_in_}{hint}."
        )
    if y is not None and y.dtype.kind != found.classes_.dtype.kind:
        y = y.astype(str) if found.classes_.dtype.kind == "U" else y
    p, labels = found.predict_proba(X), found.predict(X)
    make_room(out.parent, [out.name])
    with replacing(out) as file:
        file.write(("label," + ",".join(_cell(f"P({one})") for one in found.classes_) + "\n").encode())
        for one, row in zip(labels.tolist(), p):
            file.write((_cell(str(one)) + "," + ",".join(f"{value:.6f}" for value in row) + "\n").encode())
    counts = {str(one): int((labels == one).sum()) for one in found.classes_}
    report: Values = {"rows": len(X), "labels": counts}
    rows = [(name, str(count)) for name, count in counts.items()]
    if y is not None:
        report["accuracy"] = float((labels == y).mean())
        rows.append(("accuracy", f"{report['accuracy']:.4f}"))
    show(report, [Table(f"{table.name}: {len(X)} rows", rows, ("class", "rows"))], as_json, f"wrote {out}")


def _levels() -> list[str]:
    from solspace.learn.lowbit import LEVELS

    return [*LEVELS]


def _cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n\r') else text


def held_out(X: Any, y: Any, model: Any, single: str, folds: int, seed: int, shown: bool | None) -> dict[str, Any]:
    """Return the probabilities of every row by classifiers that did not see it, by name of the classifier."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    names = ("low-bit posterior", f"single, {single}", "logistic regression")
    held = {name: np.empty((len(y), len(np.unique(y)))) for name in names}
    cv = 5 if folds >= 5 else folds
    regression = LogisticRegressionCV(
        Cs=10, cv=cv, scoring="neg_log_loss", max_iter=2000, class_weight=model.class_weight
    )
    with progress(2 * folds, "cross-validation", shown) as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        for seen, unseen in StratifiedKFold(folds, shuffle=True, random_state=seed).split(X, y):
            own = clone(model).fit(X[seen], y[seen])
            held[names[0]][unseen] = own.predict_proba(X[unseen])
            held[names[1]][unseen] = own.to_single(single).predict_proba(X[unseen])
            bar.advance()
            held[names[2]][unseen] = (
                make_pipeline(StandardScaler(), regression).fit(X[seen], y[seen]).predict_proba(X[unseen])
            )
            bar.advance()
    return held


def _scores(p: Any, y: Any, classes: Any) -> dict[str, float]:
    goal = y[:, None] == classes
    brier = float(((p - goal) ** 2).sum(axis=1).mean() / 2)
    log_loss = float(-np.log(np.maximum(p[goal], 1e-12)).mean())
    return {"accuracy": float((classes[p.argmax(axis=1)] == y).mean()), "brier": brier, "log_loss": log_loss}


def draw_calibration(ax: Any, held: dict[str, Any], y: Any, classes: Any) -> None:
    """Draw how often a class is right against its probability, in bins of one width; for more than two classes all together."""
    from solspace.plots.style import GREY, MARKERS, SERIES

    goal, shown = y[:, None] == classes, slice(1, None) if len(classes) == 2 else slice(None)
    ax.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--")
    for (name, p), colour, marker in zip(held.items(), SERIES, MARKERS):
        said, true = p[:, shown].ravel(), goal[:, shown].ravel()
        place = np.minimum((BINS * said).astype(int), BINS - 1)
        bins = [place == k for k in range(BINS) if np.count_nonzero(place == k) >= FEWEST]
        count = np.array([part.sum() for part in bins])
        x, share = (np.array([of[part].mean() for part in bins]) for of in (said, true))
        error = np.sqrt((share * (1 - share) + 0.25 / count) / count)
        ax.errorbar(x, share, yerr=error, color=colour, marker=marker, ms=5, lw=1.2, capsize=2, label=name)
    what = f"class {classes[1]}" if len(classes) == 2 else "a class"
    ax.set(xlabel=f"predicted probability of {what}", ylabel="observed share", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_title("calibration on rows left out", fontsize=10)
    ax.legend()
