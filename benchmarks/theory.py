"""Cost of theory beside a straightforward SciPy implementation: ``python -m benchmarks.theory``.

Requirements, one core, warm: one `predict` under 50 ms; F(q) on 200 points under 60 ms (closed-form channels); a
50 x 50 t-alpha diagram under 2 s on the sphere and 5 s for ±1 weights; `thresholds` under 5 s.

`Plain` below is what one writes in an afternoon: adaptive quadrature (`scipy.integrate.quad`, nested for two Gaussian
fields) at a relative tolerance of 1e-10, `brentq` for the equations. It is timed on what it can do in seconds; where
the package's task would take it hours, its time per point is multiplied by the number of points at which the package
itself evaluates the curve for that task (marked ~). Times are CPU times of this process, medians of several rounds:
the machine may be shared. The two are compared for accuracy as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr, ndtr

import solspace as ss
from benchmarks.timing import Spread, Table, Times, timed
from solspace.theory.localization import Localization

SETTINGS = {"epsabs": 0.0, "epsrel": 1e-10, "limit": 400}


def phi(x: float) -> float:
    return float(np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))


class Plain:
    """Replica theory by adaptive quadrature: the uniform measure (power 0), the log potential at T = 0.5 (power 2)."""

    def __init__(self, prior: str, power: int, margin: float, alpha: float) -> None:
        self.prior, self.power, self.margin, self.alpha = prior, power, margin, alpha
        self.conjugate = float(brentq(self._mismatch, 1e-6, 1e3, xtol=1e-13, rtol=1e-12))
        self.overlap = self._overlap(self.conjugate)

    def channel(self, omega: float, v: float) -> tuple[float, float, float]:
        x = (omega - self.margin) / np.sqrt(v)
        if self.power == 0:
            log_i = float(log_ndtr(x))
            rho = float(np.exp(-(x**2) / 2 - log_i) / np.sqrt(2 * np.pi))
            return log_i, rho / np.sqrt(v), -rho * (rho + x) / v
        # without e^(-x²/2) on the left, where it underflows
        left = x < 0
        low = float(erfcx(-x / np.sqrt(2)) / 2 if left else ndtr(x))
        density = 1 / np.sqrt(2 * np.pi) if left else phi(x)
        i2 = (1 + x * x) * low + x * density
        rho = 2 * (x * low + density) / i2
        return float(np.log(i2 * v)) - left * x * x / 2, rho / np.sqrt(v), (2 - rho * (rho + x)) / v

    def gaussian(self, f: Callable[[float], float]) -> float:
        return quad(lambda z: phi(z) * f(z), -9, 9, points=[0.0], **SETTINGS)[0]

    def _overlap(self, conjugate: float) -> float:
        if self.prior == "binary":
            return self.gaussian(lambda z: np.tanh(np.sqrt(conjugate) * z) ** 2)
        return 1 - 2 / (1 + np.sqrt(1 + 4 * conjugate))

    def _mismatch(self, conjugate: float) -> float:
        r = self._overlap(conjugate)
        return conjugate - self.alpha * self.gaussian(lambda z: self.channel(np.sqrt(r) * z, 1 - r)[1] ** 2)

    def reference(self) -> tuple[float, float]:
        """Free entropy and replicon."""
        r, hat = self.overlap, self.conjugate
        log_z = self.gaussian(lambda z: self.channel(np.sqrt(r) * z, 1 - r)[0])
        dg2 = self.gaussian(lambda z: self.channel(np.sqrt(r) * z, 1 - r)[2] ** 2)
        if self.prior == "binary":
            entropy = self.gaussian(lambda z: np.log(2 * np.cosh(np.sqrt(hat) * z))) - hat * (1 - r) / 2
            return entropy + self.alpha * log_z, self.alpha * dg2 * self.gaussian(
                lambda z: np.cosh(np.sqrt(hat) * z) ** -4.0
            )
        return np.log(2 * np.pi * (1 - r)) / 2 + 1 / (2 * (1 - r)) + self.alpha * log_z, self.alpha * dg2 * (1 - r) ** 2

    def curve(self, q: float) -> float:
        """F(q)."""
        r, v = self.overlap, 1 - q

        def inner(gamma: float) -> float:
            start = np.sqrt(r) * gamma
            log_start, g, _ = self.channel(start, 1 - r)

            def integrand(z: float) -> float:
                log_z, gz, _ = self.channel(start + np.sqrt(q - r) * z, v)
                return phi(z) * np.exp(log_z - log_start) * gz**2

            middle = np.sqrt(q - r) * g
            wall = np.clip((self.margin - start) / np.sqrt(q - r), middle - 9, middle + 9)
            return quad(integrand, middle - 9, middle + 9, points=[wall], **SETTINGS)[0]

        return self._conjugate_at(q) - self.alpha * self.gaussian(inner)

    def _conjugate_at(self, q: float) -> float:
        if self.prior != "binary":
            r = self.overlap
            return 1 / (1 - q) + (2 * r - 1) / (1 - r) ** 2

        def overlap(d: float) -> float:
            def inner(gamma: float) -> float:
                b = np.sqrt(self.conjugate) * gamma
                mean = quad(lambda z: phi(z) / np.cosh(b + np.sqrt(d) * z), -9, 9, points=[0.0], **SETTINGS)[0]
                return float(np.exp(-d / 2) * mean / np.cosh(b))

            return 1 - self.gaussian(inner) - q

        return self.conjugate + float(brentq(overlap, 1e-9, 60.0, xtol=1e-10))


class Counter:
    """Counts the overlaps at which the package evaluates F while a task runs."""

    def __enter__(self) -> Counter:
        self.points, self._at = 0, Localization.at
        plain = self._at

        def at(curve: Localization, gap: Any, variance: Any) -> Any:
            self.points += len(gap)
            return plain(curve, gap, variance)

        Localization.at = at  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: Any) -> None:
        Localization.at = self._at  # type: ignore[method-assign]


CASES = {
    "sphere, uniform, κ = −2.5": (ss.Target("spherical", "uniform", margin=-2.5), 0, 278.0, (255, 290), 2.0),
    "±1, log, T = 0.5": (ss.Target("binary", "log", 0.5), 2, 0.5, (0.6, 0.69), 5.0),
}


def table(rounds: int = 7) -> Table:
    """Return times of theory beside those of `Plain`, and how far the two differ."""
    found = Table(
        "Theory",
        "Replica theory to ten digits, and in brackets adaptive quadrature with SciPy (nested `quad`, `brentq`); ~: its time for "
        "one point, times the points that solspace evaluates.",
        ("task", *CASES),
    )
    columns = [compare(*case, rounds) for case in CASES.values()]
    for task in columns[0]:
        found.add(task, *(column[task] for column in columns))
    return found


def compare(
    target: ss.Target, power: int, alpha: float, loads: tuple[float, float], limit: float, rounds: int
) -> dict[str, str]:
    """Return the times of both implementations for each task, and how far their results differ."""
    spent, plain = timed(lambda: Plain(str(target.prior), power, target.margin, alpha))
    more, (free_entropy, replicon) = timed(plain.reference)
    p = ss.predict(target, alpha)
    few = p.overlap + (1 - p.overlap) * np.array([0.2, 0.6, 0.9])
    each, values = timed(lambda: [plain.curve(q) for q in few])
    each /= len(few)

    def times(bound: float, call: Callable[[], Any], other: float, repeats: int, mark: str = "") -> str:
        own = Times({"own": call}, repeats)["own"].median
        missed = "" if own < bound else f", required: {bound:g} s"
        return f"{Spread.of([own])}{missed} ({mark}{Spread.of([other])}: {other / own:,.0f} times)"

    cells = {"predict": times(0.05, lambda: ss.predict(target, alpha), spent + more, rounds)}
    q = np.linspace(p.overlap, 1, 202)[1:-1]
    cells["F(q), 200 points"] = times(0.06, lambda: p.localization_time(q), 200 * each, rounds, "~")
    alphas, moments = np.linspace(*loads, 50), np.linspace(0, 0.5, 50)
    tasks: dict[str, tuple[float, Callable[[], Any]]] = {
        "t–α diagram, 50 × 50": (limit, lambda: ss.phase_diagram(target, alphas, moments, progress=False)),
        "thresholds": (5.0, lambda: ss.thresholds(target)),
    }
    for task, (bound, call) in tasks.items():
        with Counter() as counted:
            call()
        cells[task] = times(bound, call, counted.points * each, min(rounds, 3), "~")
    errors = [p.overlap / plain.overlap - 1, p.free_entropy / free_entropy - 1, p.replicon / replicon - 1]
    errors += list(p.localization_time(few) / np.array(values) - 1)
    return cells | {"largest relative difference": f"{max(map(abs, errors)):.0e}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    print(table(parser.parse_args().rounds).markdown())


if __name__ == "__main__":
    main()
