"""A run of the page: draw samples, show how far it is, and make the files that are left. Runs in a worker process.

What runs here is what `code.program` prints, call by call, so that a user's own session gives the same samples.
"""

from __future__ import annotations

import json
import tempfile
import time
import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np

import solspace as ss
from solspace.diagnostics import Report
from solspace.explorer.code import program
from solspace.explorer.state import Settings
from solspace.explorer.worker import reporting
from solspace.info import LocalizationInfo
from solspace.measure import Target
from solspace.numerics.arrays import Reals
from solspace.problem import Perceptron
from solspace.samplers.annealing.chains import Chains
from solspace.samplers.localization.loop import Record
from solspace.samplers.registry import find
from solspace.samples import Samples
from solspace.system.plain import Values, plain
from solspace.theory.prediction import Prediction

BEAT = 0.2
"""Seconds between two updates of a page."""


@reporting
def sample(settings: Settings, patterns: Reals | None, report: Callable[[Values | None], None]) -> Values:
    """Return what the page shows after a run on a random instance or on the user's `patterns` (m, n)."""
    s, target = settings, settings.target
    if patterns is None:
        problem = ss.Perceptron.random(n=s.n, alpha=s.alpha, target=target, patterns=s.patterns, rng=s.seed)
    else:
        problem = ss.Perceptron(patterns, target=target)
    watch = Watch(problem, s, report)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        more: Values = {"callback": watch.localized}
        if s.annealed:
            more = {"callback": watch.annealed, "n_sweeps": s.sweeps, "n_threads": 1}
        samples = find(s.sampler).draw(problem, s.samples, rng=s.seed + 1, progress=False, **more)
        seen = {**watch.stabilities(samples.stabilities), "pairs": overlap_bars(samples.overlaps(), samples.n)}
        report({"fraction": 1.0, "words": "comparing with theory", **seen})
        prediction = _prediction(samples.target, problem.alpha)  # annealing may end in another
        judged = ss.diagnose(samples, prediction if patterns is None else None)
    return {
        "fraction": 1.0,
        **seen,
        **_end(samples, watch),
        "verdict": " ".join([judged.verdict, *judged.notes, *_sentences(notes)]),
        "fair": judged.fair,
        "rows": [*judged.rows(), ("seconds", f"{samples.info['wall_time']:.2f}", "")],
        "files": _files(s, samples, prediction, judged, patterns is not None),
    }


class Watch:
    """Turns what samplers tell into updates of the page, a few a second."""

    def __init__(self, problem: Perceptron, settings: Settings, report: Callable[[Values | None], None]) -> None:
        self.problem, self.settings, self.report = problem, settings, report
        self._last = -np.inf
        self._missed: list[tuple[int, float]] = []

    @property
    def due(self) -> bool:
        """True where the page has not heard anything for a while."""
        return time.monotonic() - self._last >= BEAT

    def tell(self, update: Values) -> None:
        """Send `update` to the page."""
        self._last = time.monotonic()
        self.report(update)

    def stop_if_asked(self) -> None:
        """Raise `Stopped` if the user asked for it."""
        self.report(None)

    def localized(self, path: Record) -> None:
        """Tell of a step of localization."""
        self.stop_if_asked()
        if not self.due:
            return
        t, q = (
            np.nanmean(values[-1]) if np.isfinite(values[-1]).any() else np.nan for values in (path.t, path.overlap)
        )
        seen = overlap_path(path.t, path.overlap)
        end = 20.0 if self.problem.target.prior.name == "binary" else 1e4
        words = f"t = {t:.3g}, overlap {q:.3f}, step {len(path)}"
        bars = self._decoded(path.means())
        self.tell({"fraction": float(np.nan_to_num(np.log1p(t) / np.log1p(end))), "words": words, "seen": seen, **bars})

    def _decoded(self, means: Reals) -> Values:
        return self.stabilities(self.problem.stabilities(self.problem.target.prior.decode(means)))

    def annealed(self, chains: Chains) -> None:
        """Tell of some sweeps of annealing."""
        stabilities = self.problem.stabilities(chains.weights)
        violated = self.problem.target.violated(stabilities).sum(axis=1)
        self._missed.append((chains.sweep, float(violated.mean())))
        self.stop_if_asked()
        if not self.due:
            return
        total = chains.energy.shape[1]
        words = f"sweep {chains.sweep} of {total}, {violated.mean():.3g} constraints violated on average"
        self.tell(
            {"fraction": chains.sweep / total, "words": words, "energy": energy(chains.energy, self.problem.n),
             "missed": self.missed, **self.stabilities(stabilities)}
        )  # fmt: skip

    @property
    def missed(self) -> dict[str, Reals]:
        """Violated constraints, mean over chains, at the sweeps seen."""
        sweeps, violated = np.array(self._missed).reshape(-1, 2).T
        return {"sweep": sweeps, "violations": violated}

    def stabilities(self, values: Reals) -> Values:
        """Return the histogram of stabilities, any shape, as bars."""
        return {"bars": histogram(values, self.problem.target.margin, 2 / np.sqrt(self.problem.n), least=0.08)}


def histogram(values: Reals, edge: float, step: float, least: float = 0.0, most: int = 60) -> dict[str, Reals]:
    """Return bars (left, right, top): bins of whole lattice steps, one of them beginning at `edge`, about `most`.

    >>> bars = histogram(np.array([0.1, 0.3, 2.9]), edge=0.0, step=0.2, least=0.08)
    >>> float((bars["top"] * (bars["right"] - bars["left"])).sum().round(12))
    1.0
    """
    values = values[np.isfinite(values)]
    low, high = (float(x) for x in np.quantile(values, [0.001, 0.999]))
    width = step * max(1, np.ceil(max((high - low) / most, least) / step - 1e-9))
    first = edge + width * np.floor((values.min() - edge) / width)
    edges = first + width * np.arange(np.ceil((values.max() - first) / width) + 1.5)
    counts, _ = np.histogram(values, edges)
    return {"left": edges[:-1], "right": edges[1:], "top": counts / (counts.sum() * width)}


def overlap_bars(values: Reals, n: int) -> dict[str, Reals]:
    """Return the histogram of overlaps of pairs of samples as bars; none without pairs.

    Overlaps of ±1 weights lie on the lattice 1 - 2j/n: edges lie half a step beside it.

    >>> overlap_bars(np.array([1 / 3]), n=3)["left"].round(6)
    array([0.      , 0.666667])
    """
    if len(values) == 0:
        return {"left": values, "right": values, "top": values}
    return histogram(values, 1 + 1 / n, 2 / n, most=24)


def overlap_path(t: Reals, overlap: Reals) -> dict[str, Reals]:
    """Return the mean over samples of times and overlaps (steps, k), step by step, without t = 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        t, q = np.nanmean(t, axis=1), np.nanmean(overlap, axis=1)
    good = np.isfinite(t) & np.isfinite(q) & (t > 0)
    return {"t": t[good], "q": q[good]}


def energy(values: Reals, n: int, most: int = 400) -> dict[str, Reals]:
    """Return the mean energy per weight of the sweeps done, thinned to about `most` points."""
    done = np.isfinite(values).all(axis=0)
    mean = values[:, done].mean(axis=0) / n
    stride = max(1, len(mean) // most)
    return {"sweep": 1.0 + np.arange(len(mean))[::stride], "energy": mean[::stride]}


def _prediction(target: Target, alpha: float) -> Prediction | None:
    try:
        return ss.predict(target, alpha=alpha)
    except ValueError:  # past capacity: samples are still shown, without a theory line
        return None


def _end(samples: Samples, watch: Watch) -> Values:
    if isinstance(samples.info, LocalizationInfo):
        return {"seen": overlap_path(samples.info.t, samples.info.overlap)}
    return {"energy": energy(samples.info["energy"], samples.n), "missed": watch.missed}


def _sentences(notes: list[warnings.WarningMessage]) -> list[str]:
    return [str(note.message) for note in notes if issubclass(note.category, UserWarning)]


def _files(
    settings: Settings, samples: Samples, prediction: Prediction | None, judged: Report, own: bool
) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="solspace-explorer-") as folder:
        samples.save(Path(folder) / "samples.npz")
        packed = (Path(folder) / "samples.npz").read_bytes()
    report = {
        "settings": {name: getattr(settings, name) for name in settings.__dataclass_fields__ if name != "theme"},
        "prediction": None if prediction is None else prediction.to_dict(),
        "diagnosis": judged.to_dict(),
        "solved": int(samples.solved.sum()),
        "samples": len(samples),
    }
    return {
        "samples.npz": packed,
        "report.json": json.dumps(plain(report), indent=2).encode(),
        **pictures(samples, prediction),
        "code.py": program(settings, own).encode(),
    }


def pictures(samples: Samples, prediction: Prediction | None) -> dict[str, bytes]:
    """Return a picture of the run by file name: stabilities, and the path of the overlap or the energy."""
    from matplotlib.figure import Figure

    from solspace.plots import samples as plots
    from solspace.plots import theory

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    plots.stability_histogram(samples, left, None if prediction is None else prediction.stability_density)
    if isinstance(samples.info, LocalizationInfo):
        if prediction is not None:
            theory.overlap_path(prediction, right)
        seen = overlap_path(samples.info.t, samples.info.overlap)
        right.plot(seen["t"], seen["q"], "o", ms=4, color=plots.BLUE, label="samples")
        right.set(xlim=(0, 20), xlabel="time $t$", ylabel="overlap")
        right.legend(frameon=False, loc="lower right")
    else:
        seen = energy(samples.info["energy"], samples.n)
        right.plot(seen["sweep"], seen["energy"], color=plots.BLUE)
        right.set(xlabel="sweep", ylabel="energy per weight", title="annealing")
    made = {}
    for kind in ("svg", "png"):
        file = BytesIO()
        figure.savefig(file, format=kind, dpi=160)
        made[f"picture.{kind}"] = file.getvalue()
    return made
