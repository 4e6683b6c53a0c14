"""The loop of stochastic localization, dh = m_t(h) dt + db: denoisers m_t(h), steps, exits, the record, and the samples.

Over a step the field gains w dt + db, with w drawn from the posterior of the weights given h: mean m dt, covariance
dt + C dt² where C is the posterior's. The schemes of `integrate` differ in how much of C they see. Time runs separately for
every sample. At each exit time samples leave with weights drawn in their field, if single flips mix there (`finish`); the
others go on to the next exit. All leave at the last. Samples are columns, lanes; problem i of several has the lanes i `each` …
(i + 1) `each` - 1.
"""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from solspace.info import LocalizationInfo
from solspace.measure.priors import Binary, Gaussian
from solspace.numerics.arrays import Array, Precision
from solspace.numerics.streams import generator
from solspace.problem import Perceptron
from solspace.samplers.checkpoint import Checkpoint
from solspace.samplers.device import device_errors, fetched, sent
from solspace.samplers.localization.finish import Bath, leave
from solspace.samplers.localization.intercepts import draw_intercepts
from solspace.samplers.marginals.ep import Propagation
from solspace.samplers.marginals.factors import Factors
from solspace.samplers.marginals.gpu import GpuMessages
from solspace.samplers.marginals.messages import Effort, Messages, Relaxation, SampleColumns
from solspace.samples import Samples
from solspace.system.checks import shown
from solspace.system.plain import Values
from solspace.system.progress import progress as progress_bar

if TYPE_CHECKING:
    from solspace.samplers.kernels.philox import GpuNoise, Noise

DenoiserFunction = Callable[[Array, Array], Array]  # (field (k, n), time (k,)) -> mean (k, n)
INTEGRATORS = ("heun", "matched", "posterior", "mixed", "euler")
WEAK = 0.02  # instability below which the weights count as independent given the field
BRAKE = 0.25  # least factor on a step
# Instability beyond which message passing cannot have been near its fixed point, whatever its residual: that takes one below 1,
# and near the threshold samples that are fair meet up to 4.
UNSTABLE = 10.0
NEAR, FAR = 0.7, 0.5  # instability at which a sample goes on carefully, and at which a critical one goes fast again


@dataclass(frozen=True)
class Pace:
    """Steps dt = min(step (1/σ² + t), longest), and message passing to `tolerance` in `limit` iterations.

    σ² is the variance of the prior.

    AMP is damped at least by `damping`. Near instability 1 the weights answer to the field as 1/(1 - λ); where this happens at
    t = 0, as on the sphere, a pace is `critical`: steps shrink as 1 - λ, the tolerance with the square of 1 - √λ, √λ being
    the factor by which an iteration shrinks an error.
    """

    step: float
    longest: float
    tolerance: float
    limit: int
    damping: float
    critical: bool = False

    def tolerance_factor(self, instability: Array) -> Array:
        if not self.critical:
            return np.ones(len(instability))
        return np.clip(4 * (1 - np.sqrt(np.minimum(_finite(instability), 1))) ** 2, 0.1, 1)

    def step_factor(self, instability: Array) -> Array:
        return np.clip(1 - _finite(instability), BRAKE, 1) if self.critical else np.ones(len(instability))


def _finite(instability: Array) -> Array:
    return np.where(np.isfinite(instability), instability, 0.0)


class Denoiser:
    """Brings the means of `samples` up to their fields, which the integrators move."""

    samples: SampleColumns
    damping: Array
    robust = False  # whether a sample whose iteration diverged has means that can be drawn from all the same

    @property
    def instability(self) -> Array:
        """(k,) λ; NaN if unknown."""
        return np.full(self.samples.k, np.nan)

    def start(self) -> Effort:
        return self.relax(np.zeros(self.samples.k), np.arange(self.samples.k))

    def relax(self, time: Array, lanes: Array) -> Effort:
        raise NotImplementedError

    def adopt(self, pace: Pace, lanes: Array) -> None:
        """Continue at `pace` with the samples `lanes`, (k,) bool."""

    def state(self) -> dict[str, Array]:
        """Return the arrays themselves that the rest of the run depends on, by name."""
        return self.samples.state()


class MessagePassing(Denoiser):
    """AMP with warm starts: every call begins where the last one ended."""

    def __init__(self, messages: Messages | GpuMessages, automatic: bool, pace: Pace) -> None:
        self.samples = self.messages = messages
        self.pace = pace
        self.relaxation = Relaxation(messages, pace.damping, automatic, persistent=True)
        self.damping, self.patience = self.relaxation.damping, self.relaxation.patience
        self.tolerance, self.limit = np.full(messages.k, pace.tolerance), np.full(messages.k, pace.limit)

    @property
    def instability(self) -> Array:
        """(k,) λ = α mean(Δ²) mean(g'²)."""
        return self.messages.instabilities()

    def start(self) -> Effort:
        """Relax one sample of each problem at zero field, to a tighter tolerance, and copy its messages to the others."""
        first = np.arange(0, self.messages.k, self.messages.each)
        effort = self.relaxation.run(1e-3 * self.tolerance, 10 * self.limit, first)
        self.messages.broadcast()
        source = np.repeat(first, self.messages.each)
        self.damping[...], self.patience[...] = self.damping[source], self.patience[source]
        return effort.of(source)

    def relax(self, time: Array, lanes: Array) -> Effort:
        self.messages.time[...] = time
        tolerance = self.tolerance * self.pace.tolerance_factor(self.instability)
        return self.relaxation.run(tolerance, self.limit, lanes)

    def adopt(self, pace: Pace, lanes: Array) -> None:
        """Use the tolerance, the limit and at least the damping of `pace`."""
        self.tolerance[lanes], self.limit[lanes] = pace.tolerance, pace.limit
        self.damping[lanes] = np.maximum(self.damping[lanes], pace.damping)

    def state(self) -> dict[str, Array]:
        own = {"damping": self.damping, "patience": self.patience, "tolerance": self.tolerance, "limit": self.limit}
        return {**super().state(), **own}


class SitePropagation(Denoiser):
    """Expectation propagation with warm starts, for patterns of any kind."""

    robust = True

    def __init__(self, propagation: Propagation, pace: Pace) -> None:
        self.propagation, k = propagation, propagation.k
        zeros = np.zeros((propagation.n, k))
        self.samples, self.damping = SampleColumns(zeros, zeros.copy(), k), np.zeros(k)
        if not isinstance(propagation.problem.target.prior, Binary):
            self.samples.deltas = zeros.copy()
        self.tolerance, self.limit = np.full(k, pace.tolerance), np.full(k, pace.limit)

    def start(self) -> Effort:
        """Propagate one sample at zero field, to a tighter tolerance, and copy its sites to all others."""
        effort = self.propagation.run(1e-3 * self.tolerance, 10 * self.limit, np.array([0]))
        self.propagation.broadcast()
        self._take(np.arange(self.samples.k))
        return effort.of(np.zeros(self.samples.k, int))

    def relax(self, time: Array, lanes: Array) -> Effort:
        self.propagation.field[lanes], self.propagation.time[lanes] = self.samples.field[:, lanes].T, time[lanes]
        effort = self.propagation.run(self.tolerance, self.limit, lanes)
        self._take(lanes)
        return effort

    def _take(self, lanes: Array) -> None:
        self.samples.mean[:, lanes] = self.propagation.mean[lanes].T
        if self.samples.deltas is not None:
            self.samples.deltas[:, lanes] = self.propagation.spread[lanes].T

    def state(self) -> dict[str, Array]:
        own = self.propagation
        sites = {f"sites_{i}": part for i, part in enumerate(own.sites)}
        return {**super().state(), **sites, "marginals": own.mean, "share": own.step, "missed": own.missed}


class Function(Denoiser):
    """A function (field (k, n), time (k,)) -> mean (k, n)."""

    def __init__(self, problem: Perceptron, k: int, dtype: Precision, function: DenoiserFunction) -> None:
        self.function, self.damping, self.factors = function, np.zeros(k), Factors(problem)
        n = self.factors.reduced.n
        self.samples = SampleColumns(np.zeros((n, k), dtype), np.zeros((n, k), dtype), k)

    def relax(self, time: Array, lanes: Array) -> Effort:
        """Evaluate the function; raise ValueError unless it returns real means of the right shape."""
        field = self.factors.whole(self.samples.field[:, lanes].T, fill=False)
        returned = self.function(field, time[lanes])
        try:
            means = np.asarray(returned)
        except ValueError:  # rows of unequal length
            means = np.asarray(None)
        if means.shape != field.shape or means.dtype.kind not in "biuf":
            found = f"shape {means.shape}, {means.dtype}" if means.shape else shown(returned)
            raise ValueError(
                f"denoiser must return the means of the weights, real numbers of shape {field.shape} like the field; "
                f"got {found}."
            )
        self.samples.mean[:, lanes] = means.T[self.factors.free]
        return Effort.none(self.samples.k)


def integrate(scheme: str, denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array) -> Effort:
    """Move the fields and means of the samples `lanes` by `step` (k,); overwrites `noise`.

    * `heun`: predict with the drift at the start, correct with the mean of both ends; what the corrector adds is C db.
    * `matched`: heun with noise √(dt (1 + Δ dt))/(1 + Δ' dt/2), Δ' = Δ/(1 + Δ dt): exact for independent Gaussian weights.
    * `posterior`: replace C by the weights' own variances, noise √(dt (1 + Δ dt)); right where weights are independent.
    * `mixed`: posterior for samples with λ below WEAK (tr C²/(n Δ²) = 1/(1 - λ)), matched for the others.
    * `euler`: the drift at the start alone; lags behind, for comparison.
    """
    samples, wide = denoiser.samples, denoiser.samples.widen(step)
    weak = denoiser.instability < WEAK if scheme == "mixed" else np.full(samples.k, scheme in ("posterior", "euler"))
    corrected = lanes[~weak[lanes]]
    if scheme in ("heun", "euler"):
        amplitude = samples.widen(np.sqrt(step))
    else:
        gain, share = wide * samples.spreads(), samples.widen(~weak) if weak.any() else 1.0
        amplitude = np.sqrt(wide * (1 + gain)) / (1 + 0.5 * share * gain / (1 + gain))
    before = samples.mean.copy() if len(corrected) else None
    noise *= amplitude
    samples.field += noise
    np.multiply(samples.mean, wide, out=noise)
    samples.field += noise
    effort = denoiser.relax(time + step, lanes)
    if before is None:
        return effort
    half = np.zeros(samples.k)
    half[corrected] = step[corrected] / 2
    np.subtract(samples.mean, before, out=before)
    before *= samples.widen(half)
    samples.field += before
    return effort + denoiser.relax(time + step, corrected)


class SampleStatus(Enum):
    """How a sample ended; the value is the text of `LocalizationInfo.status`."""

    FAIR = "localized; message passing converged at every step"
    DOUBTFUL = "localized, but message passing missed its tolerance at some steps: the sample may be biased"
    UNSTABLE = "localized, but message passing was unstable (λ far above 1) at some steps: the sample may be biased"
    MISSED = "localized, but constraints are missed"
    DIVERGED = "message passing diverged and no damping helped: not a sample of the target"


@dataclass(frozen=True)
class Settings:
    """The choices of a run, as `LocalizationInfo` records them."""

    device: str
    denoiser: str
    reason: str
    accuracy: str
    integrator: str
    variances: str
    precision: str
    final_time: float
    step: float | str
    finish: int


@dataclass(frozen=True)
class Plan:
    """A localization of `k` samples of each of some problems of one shape and target."""

    problems: Sequence[Perceptron]
    seeds: Sequence[np.random.SeedSequence]
    k: int
    settings: Settings
    pace: Pace
    slower: Pace | None  # of samples that near instability
    times: Array | None  # grid of times for all samples; if None, each goes at its own pace
    exits: Sequence[float]
    denoiser: Denoiser
    noise: Noise | GpuNoise
    bath: Bath | None  # if None, samples are what the prior has nearest to their means

    @property
    def spreads(self) -> bool:
        """Whether the variances of the weights are known."""
        return self.settings.denoiser != "function"


class Record:
    """Rows of (k,) values, one row a step: time, overlap |m|²/n, iterations, whether they converged, instability λ.

    Rows of a sample that has arrived (or diverged) hold NaN, 0 iterations and True. `means()` returns the posterior means
    (k, n) of the samples at present.

    >>> record = Record(means=lambda: np.zeros((2, 5)))
    >>> record.add(t=np.zeros(2), overlap=np.zeros(2), iterations=np.ones(2, int), converged=np.ones(2, bool),
    ...            instability=np.zeros(2))
    >>> len(record), record.t.shape
    (1, (1, 2))
    """

    TYPES: ClassVar = {"t": float, "overlap": float, "iterations": int, "converged": bool, "instability": float}

    def __init__(self, means: Callable[[], Array]) -> None:
        self.rows: dict[str, list[Array]] = {name: [] for name in self.TYPES}
        self.means = means

    def add(self, **values: Array) -> None:
        for name, dtype in self.TYPES.items():
            self.rows[name].append(np.array(values[name], dtype))

    def __len__(self) -> int:
        return len(self.rows["t"])

    def __getattr__(self, name: str) -> Array:
        if name in self.TYPES:
            return np.array(self.rows[name])
        raise AttributeError(name)

    def arrays(self) -> dict[str, Array]:
        return {name: np.array(rows) for name, rows in self.rows.items()}


class Loop:
    """All samples of a plan on their way from t = 0 until each has left.

    Where message passing diverged a sample stays where it is, and may leave all the same if the denoiser is `robust`: its
    field is correct up to there.
    """

    STATE = ("time", "taken", "step", "longest", "careful", "slow", "diverged", "left", "weights", "turn")

    def __init__(self, plan: Plan) -> None:
        self.plan, self.denoiser = plan, plan.denoiser
        k = plan.denoiser.samples.k
        self.turn, self.exit_time = np.array(0), plan.exits[-1]  # exits that have passed, and time of the next
        self.time, self.taken = np.zeros(k), np.zeros(k, int)
        self.step, self.longest = np.full(k, plan.pace.step), np.full(k, plan.pace.longest)
        self.careful, self.slow = np.zeros(k, bool), np.zeros(k, bool)  # whether ever at the slower pace, and now
        self.diverged, self.left = np.zeros(k, bool), np.zeros(k, bool)
        self.factors = Factors(plan.problems[0])
        plan.denoiser.samples.times = self.time
        # of the samples that have left, clamped ones apart
        self.weights = np.zeros((k, self.factors.reduced.n), np.int8 if plan.bath is None else plan.bath.dtype)
        self.record = Record(means=lambda: self.factors.whole(plan.denoiser.samples.means()))

    @property
    def active(self) -> Array:
        return (self.time < self.exit_time) & ~self.diverged & ~self.left

    def run(
        self, store: Checkpoint | None, callback: Callable[[Record], object] | None, progress: bool | None
    ) -> list[Samples]:
        """Localize, from the checkpoint if there is one; return the samples of each problem."""
        began = clocks.perf_counter()
        errors = device_errors() if self.plan.settings.device == "gpu" else nullcontext()
        with np.errstate(all="ignore"), errors:
            state = store.load() if store is not None else None
            if state is not None:
                self._restore(state)
            with progress_bar(1.0, "localizing", progress) as bar:
                for exit_time in self.plan.exits[int(self.turn) :]:
                    self.exit_time = exit_time
                    while self.active.any() or not len(self.record):
                        self._step()
                        path = np.log1p(self.time) / np.log1p(self.plan.exits[-1])
                        done = float(np.mean(np.where(self.diverged | self.left, 1.0, path)))
                        bar.advance(done - bar.done, f"|m|²/n = {np.nanmean(self.record.rows['overlap'][-1]):.4f}")
                        if store is not None:
                            store.maybe_save(self.state)
                        if callback is not None:
                            callback(self.record)
                    self._leave()
        return self._samples(began)

    def _step(self) -> None:
        if not len(self.record):
            self._note(self.denoiser.start(), np.ones(len(self.left), bool))
            return
        active, times = self.active, self.plan.times
        steps = np.where(active, self._next_steps(self.denoiser.instability), 0.0)
        lanes = np.flatnonzero(active)
        noise = self.plan.noise.draw(lanes, self.taken)
        effort = integrate(self.plan.settings.integrator, self.denoiser, self.time, steps, noise, lanes)
        self.taken += steps > 0
        after = self.time + steps if times is None else times[np.minimum(self.taken, len(times) - 1)]
        arrived = after > self.exit_time * (1 - 1e-12)
        self.time[...] = np.where(steps > 0, np.where(arrived, self.exit_time, after), self.time)
        self._note(effort, active)

    def _next_steps(self, instability: Array) -> Array:
        times = self.plan.times
        if times is not None:
            here = np.minimum(self.taken, len(times) - 2)
            return times[here + 1] - times[here]
        rate = 1 / self.factors.variance
        steps = np.minimum(self.step * (rate + self.time), self.longest) * self.plan.pace.step_factor(instability)
        left = self.exit_time - self.time
        # A last step much shorter than the others would cost as much as they do.
        return np.where(left < 1.2 * steps, left, steps)

    def _note(self, effort: Effort, active: Array) -> None:
        """Add a row to the record; go on carefully with samples near instability, fast again far from it."""
        instability = self.denoiser.instability
        self.diverged |= effort.diverged
        self.record.add(
            t=np.where(active, self.time, np.nan),
            overlap=np.where(active, self._overlaps(), np.nan),
            iterations=effort.iterations,
            converged=np.where(active, effort.converged, True),
            instability=np.where(active, instability, np.nan),
        )
        slower, running = self.plan.slower, self.time < self.exit_time
        if slower is None:
            return
        near = ~self.slow & running & (instability > NEAR)
        far = self.slow & running & (instability < FAR) & self.plan.pace.critical
        self.careful |= near
        for pace, lanes in ((slower, near), (self.plan.pace, far)):
            self.step[lanes], self.longest[lanes], self.slow[lanes] = pace.step, pace.longest, pace is slower
            self.denoiser.adopt(pace, lanes)

    def _overlaps(self) -> Array:
        own, factors = self.denoiser.samples.overlaps(), self.factors
        return (
            (factors.reduced.n * own + np.square(factors.blank()).sum()) / factors.n if factors.problem.clamped else own
        )

    def _leave(self) -> None:
        turn, lanes = int(self.turn), np.flatnonzero(~self.left & (~self.diverged | self.denoiser.robust))
        if self.plan.bath is not None and len(lanes):
            last = turn == len(self.plan.exits) - 1
            gone, fair, weights = leave(self.plan.bath, self.denoiser.samples, lanes, turn, last, self.careful)
            out = lanes[gone]
            self.weights[out], self.left[out] = weights, True
            self.diverged[lanes[gone & fair]] = False
        self.turn += 1

    def decoded(self) -> Array:
        if self.left.all():
            return self.weights

        def random(lane: int) -> Array:
            problem, j = divmod(lane, self.plan.k)
            return generator(self.plan.seeds[problem], j, 1).standard_normal(self.weights.shape[1])

        samples, target = self.denoiser.samples, self.plan.problems[0].target
        decoded = samples.decoded(target.prior, random)
        if isinstance(target.prior, Gaussian) and not target.potential.hard and self.plan.spreads:
            # what is left of the posterior; at a wall its mean is safer
            noise = np.array([random(lane) for lane in range(len(decoded))])
            decoded = decoded + noise * np.sqrt(
                np.broadcast_to(samples.spreads(), samples.mean.shape)[:, : samples.k].T
            )
        decoded[self.left] = self.weights[self.left]
        return decoded

    def _samples(self, began: float) -> list[Samples]:
        plan, path, weights = self.plan, self.record.arrays(), self.factors.whole(self.decoded())
        stabilities = self.denoiser.samples.stabilities(weights) if weights.dtype == np.int8 else None
        results = []
        for i, problem in enumerate(plan.problems):
            rows = slice(i * plan.k, (i + 1) * plan.k)
            intercepts = None if problem.intercept is None else draw_intercepts(problem, weights[rows], plan.seeds[i])
            own = None if stabilities is None else stabilities[rows]
            samples = Samples.of(problem, weights[rows], None, own, intercepts=intercepts)
            record: Values = {name: values[:, rows] for name, values in path.items()}
            samples.info = LocalizationInfo(
                sampler="asl",
                seed=str(plan.seeds[i].entropy),
                wall_time=clocks.perf_counter() - began,
                **asdict(plan.settings),
                **record,
                damping=self.denoiser.damping[rows].copy(),
                careful=self.careful[rows].copy(),
                left=np.where(self.left, self.time, np.nan)[rows],
                status=_statuses(samples, record, self.diverged[rows]),
            )
            results.append(samples)
        return results

    def _arrays(self) -> dict[str, Array]:
        """Return the arrays themselves that the rest of the run depends on, wherever they are."""
        return {name: getattr(self, name) for name in self.STATE} | self.denoiser.state()

    def state(self) -> dict[str, Array]:
        """Return arrays on the host from which the run can be continued."""
        record = {f"path_{name}": values for name, values in self.record.arrays().items()}
        arrays = self._arrays().items()
        return {name: part if isinstance(part, np.ndarray) else fetched(part) for name, part in arrays} | record

    def _restore(self, state: dict[str, Array]) -> None:
        for name, part in self._arrays().items():
            part[...] = state[name] if isinstance(part, np.ndarray) else sent(state[name])
        self.record.rows = {name: list(state[f"path_{name}"]) for name in Record.TYPES}


def unstable(instability: Array) -> Array:
    """Return which samples (k,) met an instability (steps, k) at which message passing cannot be trusted."""
    return np.asarray((instability > UNSTABLE).any(axis=0))


def _statuses(samples: Samples, record: Values, diverged: Array) -> list[str]:
    missed = ~samples.solved if samples.target.potential.hard else np.zeros(len(diverged), bool)
    conditions = [diverged, missed, unstable(record["instability"]), record["converged"].all(axis=0)]
    choices = [SampleStatus.DIVERGED, SampleStatus.MISSED, SampleStatus.UNSTABLE, SampleStatus.FAIR]
    words: list[str] = np.select(conditions, [own.value for own in choices], SampleStatus.DOUBTFUL.value).tolist()
    return words
