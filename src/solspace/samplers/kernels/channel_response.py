"""The constraints' response g = ∂ log Z and its derivative, written in place."""

from __future__ import annotations

from solspace.measure import Target, channels, potentials
from solspace.numerics.arrays import Array
from solspace.samplers.kernels.channel_table import table_for


def respond_into(target: Target, omega: Array, variance: Array, out: tuple[Array, Array]) -> None:
    """Write (g, dg) of `target` at `omega` (m, k), measured from the margin, and `variance` (k,) or (m, k) into `out`."""
    potential = target.potential
    if isinstance(potential, (potentials.Uniform, potentials.Log)):
        exponent = 0.0 if isinstance(potential, potentials.Uniform) else target.beta
        channels.power_derivatives(omega, variance, exponent, out)
        return
    table = table_for(potential, target.beta, omega, variance)
    if table is not None:
        table.respond_into(omega, variance, out)
        return
    out[0][...], out[1][...] = potential.derivatives(omega, variance, target.beta)
