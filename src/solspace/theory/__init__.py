"""n to infinity: replica theory of the reference system, of localization, and its thresholds.

`weights` holds what theory needs of a prior, `cavity` holds the averages over fields that all of it is made of, `reference`
solves for the equilibrium at a load, `edge` looks at the end q → 1, `localization` at the curve F(q) and the maxima of φ_t;
`prediction` puts them together; `branch`, `thresholds`, `capacity`, `phases` and `design` find loads, lines and potentials.
"""

from solspace.theory.thresholds import tricritical_margin

__all__ = ["tricritical_margin"]
