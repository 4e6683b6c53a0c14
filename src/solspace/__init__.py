"""solspace: state a perceptron problem, sample its solution space fairly, and know from theory whether that can work.

>>> import solspace as ss
>>> problem = ss.Perceptron.random(n=9, alpha=0.4, rng=0)
>>> problem.is_solution(problem.enumerate().sample(1, rng=0)[0])
True

Names are loaded when first used, so that `import solspace` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from solspace._version import __version__

if TYPE_CHECKING:
    from solspace.measure import Target, potentials, priors
    from solspace.problem import Perceptron
    from solspace.samplers.anneal import anneal
    from solspace.samples import Samples

_HOME = {
    "Target": "solspace.measure.target",
    "Perceptron": "solspace.problem",
    "Samples": "solspace.samples",
    "anneal": "solspace.samplers.anneal",
}
_MODULES = {"potentials": "solspace.measure.potentials", "priors": "solspace.measure.priors"}

__all__ = ["Perceptron", "Samples", "Target", "__version__", "anneal", "potentials", "priors"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = import_module(_MODULES[name])
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'solspace' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
