"""n to infinity: replica theory of the reference system, of localization, and its thresholds.

`weights` and `ising` know what theory asks of a prior, `reference` solves for the equilibrium at a load, `cavity` holds
the averages over fields that all of it is made of, `localization` the curve F(q), `landscape` the maxima of φ_t,
`stability` the law of the stabilities, `edge` and `walls` the end q → 1; `prediction` puts them together, `branch`,
`thresholds`, `capacity`, `phases` and `design` ask for loads, lines and potentials.
"""

from solspace.theory.thresholds import tricritical_margin

__all__ = ["tricritical_margin"]
