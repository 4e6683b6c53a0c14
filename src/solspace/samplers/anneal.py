"""Annealed Metropolis: single flips of ±1 weights while the potential, or the temperature, is lowered sweep by sweep.

A chain starts at random weights and follows a schedule of measures, one a sweep, ending in the one to be sampled
(`samplers.schedules`). A sweep proposes every flip once, in a random order that all chains of the call share; it is
accepted with probability min(1, exp(-ΔU/T)), in sweeps beyond the schedule 1/(1 + exp(ΔU/T)). Given the order, each
chain leaves each measure invariant, and chains are independent. (Orders with every site drawn anew solve fewer
instances: at N = 1001, alpha = 0.55, 100 sweeps 120 of 300 instead of 165.) Energies are integers
(`samplers.landscape`, `samplers.fixedpoint`), so that a chain depends on its seed alone: not on the number of cores,
of chains beside it, or on the width of the machine's vectors.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.numerics.streams import RNG, seed_sequence
from solspace.problem import Perceptron
from solspace.samplers import gpu_anneal
from solspace.samplers.chains import Chains, Plan
from solspace.samplers.checkpoint import Checkpoint, fingerprint
from solspace.samplers.device import resolve
from solspace.samplers.schedules import stages_of
from solspace.samplers.walkers import Walker, walker_for
from solspace.samples import Samples
from solspace.system import progress as bars
from solspace.system.names import unknown

Array = NDArray[Any]
MODES = ("sample", "solve")
_BEAT = 0.5
"""Seconds of work between two looks at the clock."""
_ROOM = 1 << 22
"""Most numbers laid out at a time for the sweeps to come."""


def anneal(
    problem: Perceptron,
    n_chains: int = 16,
    n_sweeps: int | None = None,
    schedule: Any = "tau",
    rng: RNG = None,
    *,
    mode: str = "sample",
    n_extra: int = 0,
    thin: int = 10,
    device: str = "cpu",
    n_threads: int | None = None,
    progress: bool | None = None,
    callback: Callable[[Chains], Any] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    keep_checkpoint: bool = False,
) -> Samples:
    """Return samples (k, n) of ±1 weights by annealed Metropolis.

    Parameters
    ----------
    problem
        Any patterns; the prior must be binary. ±1 patterns take the integer path, others the fixed-point one.
    n_chains, n_sweeps
        Independent chains, and sweeps of the schedule (1001 unless given).
    schedule
        `"tau"`: τ from 1 to 0, ending in the log potential at the target's temperature. `"temperature"`: T from 1 to
        exactly 0 on hinge or errors (the target's potential if it is one of them, else hinge), ending among the
        solutions, all alike. Or a sequence of targets, one a sweep, or an object with `stages(target, n_sweeps)`.
    rng
        Seed of the whole call.
    mode
        `"sample"`: the whole schedule, then `n_extra` sweeps at its last stage with a draw after every `thin` of them
        (one draw at the end of the schedule if there are none). `"solve"`: stop each chain at its first solution,
        which is then no sample of the measure.
    device
        `"cpu"`, `"gpu"` (one CUDA device, with CuPy), or `"auto"`: a device where there is one. The chains are the same
        on either; a device pays from some hundred chains on.
    n_threads
        Threads; all cores unless given. The result does not depend on it.
    progress
        True, False, or None: a bar with the time left where somebody looks.
    callback
        Called with the `Chains` about twice a second.
    checkpoint, resume, keep_checkpoint
        File to keep the state in, every few seconds and on Ctrl-C; go on from it. It is removed when the run is done,
        or left for whoever first writes the samples to the disk.

    Returns
    -------
    Samples
        Rows ordered by chain, then draw. `info` holds, for each chain (rows) and sweep (columns), the `acceptance` and
        the `energy` ΣU; `solved_at`, the number of the sweep at which a chain first met every constraint, -1 if it
        never did; `chain` and `draw` of each row, the sweeps that ended in draws (`draw_sweep`), and `temperature`
        (and `tau`) of each sweep.

    Examples
    --------
    >>> problem = Perceptron.random(n=101, alpha=0.3, rng=0)
    >>> anneal(problem, n_chains=4, n_sweeps=100, rng=1)
    Samples(k=4, n=101, m=30, solved 4/4, tau)
    """
    check(problem, n_chains, n_sweeps, n_extra, thin, mode)
    where = resolve(device)
    name, stages = stages_of(schedule, problem.target, n_sweeps)
    plan = Plan.of(stages, n_extra, thin, solve=mode == "solve")
    key = int(seed_sequence(rng).generate_state(1, np.uint64)[0])
    walker: Any
    if where == "gpu":
        walker = gpu_anneal.walker_for([problem], plan, [key], n_chains)
        chains = Chains.start(walker.first_weights(), plan)
    else:
        walker = walker_for(problem, plan, key)
        chains = Chains.start(_first_weights(key, n_chains, problem.n), plan)
    store = Checkpoint(checkpoint, _identity(problem, plan, n_chains, key) if checkpoint else {}, resume)
    stored = store.load(lambda: chains.entries(plan), lambda state: chains.sound(state, plan))
    if stored is not None:
        chains.restore(stored)
    begun = time.perf_counter()
    with bars.progress(len(plan), f"annealing ({name})", progress) as bar:
        bar.advance(chains.sweep)

        def report(sweeps: int) -> None:
            bar.advance(sweeps)
            if callback is not None:
                callback(chains)

        if where == "gpu":
            gpu_anneal.run(walker, chains, plan, store, report)
        else:
            _run(walker, chains, plan, _groups(n_chains, n_threads), store, report)
    store.finish(lambda: {**chains.records(), **chains.snapshot()}, keep_checkpoint)
    info = {"sampler": name, "mode": mode, "path": walker.name, "device": where, "key": key}
    info["wall_time"] = time.perf_counter() - begun
    return samples_of(problem, plan, chains, info, walker.checked(drawn(plan, chains)) if where == "gpu" else None)


def _run(
    walker: Walker, chains: Chains, plan: Plan, groups: list[slice], store: Checkpoint, report: Callable[[int], None]
) -> None:
    """Carry the chains to the end of the plan; report how many sweeps were done, about twice a second.

    What the next sweeps need is prepared while the chains walk, so that no core waits for it. Whatever ends the run
    before its time, the state after the last sweeps that all chains finished is stored.
    """
    halt = np.zeros(1, np.bool_)
    count, most = 1, max(1, _ROOM // walker.breadth)
    walker.place(chains)
    with ThreadPoolExecutor(len(groups)) as pool:
        tasks: list[Future[None]] = []
        safe = chains.snapshot()
        ahead = slice(chains.sweep, min(chains.sweep + count, len(plan)))
        prepared: Any = walker.prepare(ahead) if ahead.start < ahead.stop else None
        try:
            while chains.sweep < len(plan) and not chains.stopped.all():
                begun = time.perf_counter()
                sweeps, work = ahead, prepared
                tasks = [pool.submit(walker.walk, work, chains, rows, halt) for rows in groups]
                ahead = slice(sweeps.stop, min(sweeps.stop + count, len(plan)))
                prepared = walker.prepare(ahead) if ahead.start < ahead.stop else None
                for task in tasks:
                    task.result()
                chains.sweep = sweeps.stop
                safe = chains.snapshot()
                store.maybe_save(lambda state=safe: {**chains.records(), **state})
                report(sweeps.stop - sweeps.start)
                pace = _BEAT / max(time.perf_counter() - begun, 1e-9) * (sweeps.stop - sweeps.start)
                count = int(np.clip(pace, 1, min(most, 8 * count)))
        except BaseException:
            halt[0] = True
            wait(tasks)
            store.save({**chains.records(), **safe})
            raise


def drawn(plan: Plan, chains: Chains) -> Array:
    """Return the weights that `chains` drew, those of a chain side by side."""
    return chains.weights if plan.solve else chains.draws.reshape(-1, chains.weights.shape[1])


def samples_of(
    problem: Perceptron, plan: Plan, chains: Chains, info: dict[str, Any], stabilities: Array | None = None
) -> Samples:
    """Return the samples that `chains` made, and what is known of them; `stabilities` where a device computed them."""
    k, n = chains.weights.shape
    draws = 1 if plan.solve else plan.n_draws
    done = np.isfinite(chains.energy)
    info |= {
        "n_chains": k,
        "n_draws": draws,
        "n_anneal": plan.n_anneal,
        "chain": np.repeat(np.arange(k), draws),
        "draw": np.tile(np.arange(draws), k),
        "acceptance": np.where(done, chains.accepted / n, np.nan),
        "energy": chains.energy,
        "solved_at": chains.solved_at,
        **plan.about,
    }
    return Samples.of(problem.with_target(plan.target), drawn(plan, chains), info, stabilities)


def _groups(n_chains: int, n_threads: int | None) -> list[slice]:
    """Return the rows of each thread, as even as can be."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    edges = np.linspace(0, n_chains, min(n_threads or cores, n_chains) + 1).astype(int)
    return [slice(int(first), int(last)) for first, last in pairwise(edges)]


def _first_weights(key: int, n_chains: int, n: int) -> Array:
    from solspace.samplers.kernels.philox import first_weights

    weights = np.empty((n_chains, n), np.int8)
    first_weights(np.uint64(key), 0, weights)
    return weights


def _identity(problem: Perceptron, plan: Plan, n_chains: int, key: int) -> dict[str, Any]:
    """Return what a checkpoint must agree in: the potentials by their values, as a user's own has no other name."""
    probe = np.linspace(-4, 4, 33)
    values = np.array([np.append(stage.energies(probe), stage.temperature) for stage in plan.stages])
    digest = hashlib.sha256(values.tobytes() + plan.draw_at.tobytes()).hexdigest()
    return {
        "sampler": "anneal", "problem": fingerprint(problem), "plan": digest, "solve": plan.solve,
        "n_anneal": plan.n_anneal, "n_chains": n_chains, "key": key,
    }  # fmt: skip


def check(problem: Perceptron, n_chains: int, n_sweeps: int | None, n_extra: int, thin: int, mode: str) -> None:
    """Raise a sentence for arguments that `anneal` cannot take."""
    if problem.target.prior.name != "binary":
        raise ValueError(
            f"anneal flips ±1 weights, but the target's prior is {problem.target.prior}; use localize for it."
        )
    if mode not in MODES:
        raise unknown("mode", mode, MODES)
    least = {
        "n_chains": (n_chains, 1),
        "n_sweeps": (1 if n_sweeps is None else n_sweeps, 1),
        "n_extra": (n_extra, 0),
        "thin": (thin, 1),
    }
    for name, (given, smallest) in least.items():
        if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < smallest:
            raise ValueError(f"{name} must be an integer of at least {smallest}; got {given!r}.")
    if mode == "solve" and n_extra:
        raise ValueError("n_extra sweeps sample the last stage; mode 'solve' stops before it. Leave n_extra out.")
    if 0 < n_extra < thin:
        raise ValueError(f"n_extra = {n_extra} sweeps thinned by {thin} give no draw; lower thin.")
