"""Names that the shell completes behind an option, read from the tables in which they are registered.

Each function returns (name, what it is) for Typer, which keeps those that begin as what is typed; where none does, the
shell goes on to complete files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Offer = list[tuple[str, str]]


def samplers() -> Offer:
    """Return the samplers that draw fair samples."""
    from solspace.samplers.registry import SAMPLERS

    return [(one.name, one.about) for one in SAMPLERS.values() if one.fair]


def potentials() -> Offer:
    """Return the potentials, your own among them where they are registered."""
    from solspace.measure.potentials import REGISTRY

    return [(name, (one.__doc__ or "").strip().partition("\n")[0]) for name, one in REGISTRY.items()]


def priors() -> Offer:
    """Return the priors."""
    from solspace.measure.priors import REGISTRY

    return [(name, f"{name} weights") for name in REGISTRY]


def figures() -> Offer:
    """Return the figures of `solspace reproduce`, and all."""
    from solspace.experiments.figures import FIGURES

    return [*((name, "a figure") for name in FIGURES), ("all", "every figure")]


def image_sets() -> Offer:
    """Return the image sets."""
    from solspace.data.catalogue import CATALOGUE

    return [(one.name, one.title) for one in CATALOGUE.values()]


def choices(sampler: str, option: str) -> Callable[[], Offer]:
    """Return what offers the names that an option of a sampler takes."""

    def offer() -> Offer:
        from solspace.samplers.registry import SAMPLERS

        about = SAMPLERS[sampler].options[option].metadata
        return [(name, about["help"]) for name in about["choices"]]

    return offer


def words(names: Iterable[str]) -> Callable[[], Offer]:
    """Return what offers `names` themselves."""
    return lambda: [(name, "") for name in names]


def completing(offer: Callable[[], Offer]) -> Callable[[str], Offer]:
    """Return the callback for Typer.

    >>> completing(words(["binary", "gaussian"]))("ga")
    [('gaussian', '')]
    """

    def complete(incomplete: str) -> Offer:
        return [(name, about) for name, about in offer() if name.startswith(incomplete)]

    return complete
