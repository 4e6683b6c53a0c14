"""n to infinity: replica theory of the reference system, of localization, and its thresholds.

`weights` and `levels` hold what theory needs of a prior, `cavity` the averages over fields that all of it is made of, `reference`
solves for the equilibrium at a load, `edge` looks at the end q → 1, `localization` at the curve F(q) and the maxima of φ_t;
`prediction` puts them together; `branch`, `thresholds`, `capacity`, `phases` and `design` find loads, lines and potentials;
`planted` and `planted_thresholds` are the same for labels from a teacher; `probe` and `franz_parisi` look around a fair sample.
"""

from solspace.theory.thresholds import tricritical_margin

__all__ = ["tricritical_margin"]
