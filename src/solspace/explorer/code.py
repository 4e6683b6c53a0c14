"""The Python program that repeats a run of the page."""

from __future__ import annotations

from solspace.explorer.state import Settings


def program(settings: Settings, own_patterns: bool = False) -> str:
    """Return a program that draws the samples of a run again and saves them.

    >>> print(program(Settings()))
    import solspace as ss
    <BLANKLINE>
    target = ss.Target(prior='binary', potential='log', temperature=0.5, margin=0.0)
    problem = ss.Perceptron.random(n=1001, alpha=0.3, target=target, patterns='binary', rng=0)
    samples = ss.localize(problem, n_samples=16, rng=1)
    print(ss.diagnose(samples, ss.predict(samples.target, problem.alpha)))
    samples.save("samples.npz")
    <BLANKLINE>
    """
    s = settings
    lines = ["import solspace as ss", ""]
    lines.append(
        f"target = ss.Target(prior={s.prior!r}, potential={s.potential!r}, temperature={s.temperature!r}, "
        f"margin={s.margin!r})"
    )
    if own_patterns:
        lines[:1] = ["import numpy as np", "import solspace as ss"]
        lines.append('patterns = np.load("patterns.npy", allow_pickle=False)  # your own file')
        lines.append("problem = ss.Perceptron(patterns, target=target)")
    else:
        lines.append(
            f"problem = ss.Perceptron.random(n={s.n}, alpha={s.alpha!r}, target=target, patterns={s.patterns!r}, "
            f"rng={s.seed})"
        )
    if s.annealed:
        lines.append(
            f"samples = ss.anneal(problem, n_chains={s.samples}, n_sweeps={s.sweeps}, schedule={s.sampler!r}, "
            f"rng={s.seed + 1})"
        )
    else:
        lines.append(f"samples = ss.localize(problem, n_samples={s.samples}, rng={s.seed + 1})")
    lines.append(
        "print(ss.diagnose(samples))"
        if own_patterns
        else "print(ss.diagnose(samples, ss.predict(samples.target, problem.alpha)))"
    )
    lines.append('samples.save("samples.npz")')
    return "\n".join(lines) + "\n"
