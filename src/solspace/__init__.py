"""solspace: state a perceptron problem, sample its solution space fairly, and know from theory whether that can work.

>>> import solspace as ss
>>> problem = ss.Perceptron.random(n=9, alpha=0.4, rng=0)
>>> problem.is_solution(problem.enumerate().sample(1, rng=0)[0])
True

Names are loaded when first used, so that `import solspace` stays light.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from solspace._version import __version__

# Numba reads `.numba_config.yaml` in the current folder and unpickles the cache that it names: code from that folder. A value in
# the environment takes precedence; the empty one is Numba's default.
os.environ.setdefault("NUMBA_CACHE_DIR", "")

if TYPE_CHECKING:
    from solspace import data as data
    from solspace import plots as plots
    from solspace.counting.count import count as count
    from solspace.diagnostics import diagnose as diagnose
    from solspace.diagnostics.calibrate import calibrate as calibrate
    from solspace.experiments.runner import sweep as sweep
    from solspace.experiments.spec import Spec as Spec
    from solspace.geometry.local_entropy import local_entropy as local_entropy
    from solspace.geometry.paths import barrier as barrier
    from solspace.measure import potentials as potentials
    from solspace.measure import priors as priors
    from solspace.measure.target import Target as Target
    from solspace.problem import Perceptron as Perceptron
    from solspace.samplers.annealing.anneal import anneal as anneal
    from solspace.samplers.localization.localize import localize as localize
    from solspace.samplers.marginals.amp import amp as amp
    from solspace.samplers.marginals.ep import ep as ep
    from solspace.samplers.solving.solve import solve as solve
    from solspace.samples import Samples as Samples
    from solspace.theory.design import design as design
    from solspace.theory.franz_parisi import franz_parisi as franz_parisi
    from solspace.theory.phases import phase_diagram as phase_diagram
    from solspace.theory.phases import sampling_map as sampling_map
    from solspace.theory.prediction import Prediction as Prediction
    from solspace.theory.prediction import predict as predict
    from solspace.theory.thresholds import thresholds as thresholds

_HOME = {
    "Perceptron": "problem",
    "Prediction": "theory.prediction",
    "Samples": "samples",
    "Spec": "experiments.spec",
    "Target": "measure.target",
    "amp": "samplers.marginals.amp",
    "anneal": "samplers.annealing.anneal",
    "barrier": "geometry.paths",
    "calibrate": "diagnostics.calibrate",
    "count": "counting.count",
    "data": "data",
    "design": "theory.design",
    "diagnose": "diagnostics",
    "ep": "samplers.marginals.ep",
    "franz_parisi": "theory.franz_parisi",
    "local_entropy": "geometry.local_entropy",
    "localize": "samplers.localization.localize",
    "phase_diagram": "theory.phases",
    "plots": "plots",
    "potentials": "measure.potentials",
    "predict": "theory.prediction",
    "priors": "measure.priors",
    "sampling_map": "theory.phases",
    "solve": "samplers.solving.solve",
    "sweep": "experiments.runner",
    "thresholds": "theory.thresholds",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        hint = "" if name.startswith("_") else f": {_hint(name)}"
        raise AttributeError(f"module 'solspace' has no attribute {name!r}{hint}")
    home = import_module(f"solspace.{_HOME[name]}")
    globals()[name] = getattr(home, name, home)  # some names are those of modules
    return globals()[name]


def _hint(name: str) -> str:
    from difflib import get_close_matches
    from importlib.util import find_spec

    if find_spec(f"solspace.{name}"):
        inside = [f"ss.{own}" for own, home in _HOME.items() if f"{home}.".startswith(f"{name}.")]
        return f"use {', '.join(inside)}, or import solspace.{name}" if inside else f"import solspace.{name} first"
    lowered = {public.lower(): public for public in __all__}
    close = get_close_matches(name.lower(), lowered, n=1)
    return f"did you mean {lowered[close[0]]!r}?" if close else f"public names are {', '.join(__all__)}"


def __dir__() -> list[str]:
    return sorted(__all__)
