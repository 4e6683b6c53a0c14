"""What worker processes do for the card "Sample": read patterns of the user, draw samples, write files of a run.

Samples are drawn as in `settings.program`, which repeats a run.
"""

from __future__ import annotations

import json
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np

import solspace as ss
from solspace.diagnostics import Report
from solspace.explorer.settings import Settings, program
from solspace.info import LocalizationInfo
from solspace.numerics.arrays import Array, Reals
from solspace.numerics.series import bins, spacing
from solspace.problem import Perceptron
from solspace.samplers.annealing.chains import Chains
from solspace.samplers.localization.loop import Record
from solspace.samplers.registry import find
from solspace.samples import Samples
from solspace.system.files import read_arrays
from solspace.system.plain import Values, plain
from solspace.theory.prediction import Prediction

INTERVAL = 0.2  # seconds between two updates of a page
MAX_BYTES = 32 * 2**20  # largest file with patterns
MAX_PATTERNS = 64 * 2**20  # bytes that patterns may take in memory
FILES = ("samples.npz", "report.json", "picture.svg", "picture.png", "code.py")  # files of a finished run


def read_patterns(content: bytes) -> Array:
    """Return the patterns (m, n) in `content`: a .npy file, a .npz with one array, or a table, one pattern a line."""
    if not content:
        raise ValueError("the file is empty.")
    arrays = read_arrays(content, MAX_PATTERNS)
    if len(arrays) != 1:
        raise ValueError(f"the file holds {len(arrays)} arrays; send one with the patterns alone.")
    patterns = ss.Perceptron(*arrays.values()).patterns
    if patterns.nbytes > MAX_PATTERNS:
        size, limit = patterns.nbytes / 2**20, MAX_PATTERNS // 2**20
        raise ValueError(f"the patterns take {size:.0f} MiB of memory; the limit is {limit} MiB.")
    return patterns


def sample(settings: Settings, patterns: Reals | None, report: Callable[[Values], None]) -> Values:
    """Return all that the page shows after a run on random patterns or on the user's `patterns` (m, n)."""
    s, target = settings, settings.target
    if patterns is None:
        problem = (ss.Perceptron.planted if s.ensemble == "planted" else ss.Perceptron.random)(
            n=s.n, alpha=s.alpha, target=target, patterns=s.patterns, rng=s.seed
        )
    else:
        problem = ss.Perceptron(patterns, target=target)
    progress = Progress(problem, report)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        options: Values = {"callback": progress.localized}
        if s.annealed:
            options = {"callback": progress.annealed, "n_sweeps": s.sweeps, "n_threads": 1}
        samples = find(s.sampler).draw(problem, s.samples, rng=s.seed + 1, progress=False, **options)
        data = {
            "bars": stability_bars(samples.stabilities, problem),
            "pairs": overlap_bars(samples.overlaps(), samples.n),
        }
        report({"fraction": 1.0, "words": "comparing with theory", **data})
        prediction = None
        if (
            s.ensemble == "random" or samples.target == target
        ):  # annealing may end in another measure than the posterior
            with suppress(ValueError):  # past capacity
                prediction = ss.predict(samples.target, problem.alpha, s.ensemble)
        judged = ss.diagnose(samples, prediction if patterns is None else None)
    if isinstance(samples.info, LocalizationInfo):
        data["seen"] = overlap_path(samples.info.t, samples.info.overlap)
    else:
        data |= {"energy": energy(samples.info["energy"], samples.n), "missed": progress.missed}
    warned = [str(note.message) for note in notes if issubclass(note.category, UserWarning)]
    return {
        **data,
        "verdict": " ".join([judged.verdict, *judged.notes, *warned]),
        "fair": judged.fair,
        "rows": [*judged.rows(), ("seconds", f"{samples.info['wall_time']:.2f}", "")],
        "files": _files(s, samples, prediction, judged, patterns is not None),
    }


class Progress:
    """Callbacks of the samplers that report a few updates a second."""

    def __init__(self, problem: Perceptron, report: Callable[[Values], None]) -> None:
        self.problem, self.report = problem, report
        self._last = -np.inf
        self._missed: list[tuple[int, float]] = []

    def localized(self, path: Record) -> None:
        if not self._due():
            return
        times, overlaps = path.t, path.overlap
        t, q = (np.nanmean(row[-1]) if np.isfinite(row[-1]).any() else np.nan for row in (times, overlaps))
        prior = self.problem.target.prior
        end = 20.0 if prior.discrete else 1e4
        stabilities = self.problem.stabilities(prior.decode(path.means()))
        self.report(
            {
                "fraction": float(np.nan_to_num(np.log1p(t) / np.log1p(end))),
                "words": f"t = {t:.3g}, overlap {q:.3f}, step {len(path)}",
                "seen": overlap_path(times, overlaps),
                "bars": stability_bars(stabilities, self.problem),
            }
        )

    def annealed(self, chains: Chains) -> None:
        stabilities = self.problem.stabilities(chains.weights)
        violated = float(self.problem.target.violated(stabilities).sum(axis=1).mean())
        self._missed.append((chains.sweep, violated))
        if not self._due():
            return
        total = chains.energy.shape[1]
        words = f"sweep {chains.sweep} of {total}, {violated:.3g} constraints violated on average"
        shown = {"energy": energy(chains.energy, self.problem.n), "missed": self.missed}
        bars = stability_bars(stabilities, self.problem)
        self.report({"fraction": chains.sweep / total, "words": words, "bars": bars, **shown})

    @property
    def missed(self) -> dict[str, Reals]:
        """Violated constraints, mean over chains, at the sweeps of the callbacks."""
        sweeps, violated = np.array(self._missed).reshape(-1, 2).T
        return {"sweep": sweeps, "violations": violated}

    def _due(self) -> bool:
        due = time.monotonic() - self._last >= INTERVAL
        if due:
            self._last = time.monotonic()
        return due


def histogram(values: Reals, edges: Reals) -> dict[str, Reals]:
    return {"left": edges[:-1], "right": edges[1:], "top": np.histogram(values, edges, density=True)[0]}


def stability_bars(stabilities: Reals, problem: Perceptron) -> dict[str, Reals]:
    values = stabilities[np.isfinite(stabilities)]
    return histogram(
        values, bins(values, problem.target.margin, spacing(values, problem.n) or spacing(values, 4 * problem.n))
    )


def overlap_bars(values: Reals, n: int) -> dict[str, Reals]:
    """Return the histogram of overlaps of pairs, with edges half way between the values (1 - 2j/n for ±1 weights)."""
    return histogram(values, bins(values, 1.0, spacing(values, n * n) or 1 / n) if len(values) else values)


def overlap_path(t: Reals, overlap: Reals) -> dict[str, Reals]:
    """Return the means over samples of times and overlaps (steps, k), without t = 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        t, q = np.nanmean(t, axis=1), np.nanmean(overlap, axis=1)
    good = np.isfinite(t) & np.isfinite(q) & (t > 0)
    return {"t": t[good], "q": q[good]}


def energy(values: Reals, n: int, most: int = 400) -> dict[str, Reals]:
    """Return the mean energy per weight after each sweep, thinned to about `most` points."""
    done = np.isfinite(values).all(axis=0)
    mean = values[:, done].mean(axis=0) / n
    stride = max(1, len(mean) // most)
    return {"sweep": 1.0 + np.arange(len(mean))[::stride], "energy": mean[::stride]}


def _files(
    settings: Settings, samples: Samples, prediction: Prediction | None, judged: Report, own: bool
) -> dict[str, bytes]:
    """Return the files to download: among them pictures of stabilities, overlaps, and the course of the run."""
    from solspace.plots.samples import sample_pictures
    from solspace.plots.style import panels

    report = {
        "settings": {name: value for name, value in asdict(settings).items() if name != "theme"},
        "prediction": None if prediction is None else prediction.to_dict(),
        "diagnosis": judged.to_dict(),
        "solved": int(samples.solved.sum()),
        "samples": len(samples),
    }
    figure, axes = panels(len(sample_pictures(samples)))
    samples.plot("all", axes, prediction)
    with tempfile.TemporaryDirectory(prefix="solspace-explorer-") as name:
        folder = Path(name)
        samples.save(folder / "samples.npz")
        (folder / "report.json").write_text(json.dumps(plain(report), indent=2), encoding="utf-8")
        for kind in ("svg", "png"):
            figure.savefig(folder / f"picture.{kind}", dpi=160)
        (folder / "code.py").write_text(program(settings, own, prediction is not None), encoding="utf-8", newline="\n")
        return {file: (folder / file).read_bytes() for file in FILES}
