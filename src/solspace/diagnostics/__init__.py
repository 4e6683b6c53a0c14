"""Are samples fair? Judged by theory, by themselves, or by another sampler; never without saying within what.

- `theory`: stabilities and overlaps against what replica theory predicts, where patterns are random.
- `chains`: annealed chains with draws after their schedule judge themselves, on any patterns.
- `agreement`: two samplers on one problem, one of which is trusted.

Localized samples without any of these are compared with their own marginals at t = 0, whose |m|²/n is the overlap of two
samples: an error there that the whole path shares does not show, so that this alone never calls samples fair.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from solspace.diagnostics import agreement, chains, theory
from solspace.diagnostics.overlaps import chain_means, chains_of, copies, cross_overlap
from solspace.diagnostics.report import Agreement, Distance, Estimate, Mixing, Report, widened
from solspace.info import AnnealingInfo, DrawsInfo, LocalizationInfo, SolvingInfo
from solspace.numerics.arrays import Array
from solspace.samples import Samples
from solspace.system.checks import instance, optional
from solspace.system.plain import Values

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction

__all__ = ["Agreement", "Distance", "Estimate", "Mixing", "Report", "diagnose"]
Judged = tuple[bool | None, str, float | None]
"""(fair, verdict, within)."""


def diagnose(samples: Samples, prediction: Prediction | None = None, reference: Samples | None = None) -> Report:
    """Judge whether samples are fair: by theory, by a reference, or by the samples alone.

    Without `prediction` and `reference`, chains with draws after their schedule judge themselves, and localized samples are
    compared with their own marginals at t = 0.

    Parameters
    ----------
    samples : Samples
        Samples of one problem.
    prediction : Prediction, optional
        Theory of the samples' target at their load m/n, for random patterns.
    reference : Samples, optional
        Samples of the same problem by another sampler, best by annealed chains with `n_extra` sweeps that have mixed.

    Returns
    -------
    Report
        Verdict, and the numbers with their errors; `within` is a bias of the overlaps that would have been detected with
        95% probability.

    Raises
    ------
    ValueError
        If there are no samples, if `prediction` is of another target or load or `reference` of another problem or target, or
        if both are given.

    Examples
    --------
    >>> import solspace as ss
    >>> problem = ss.Perceptron.random(n=501, alpha=0.3, rng=0)
    >>> samples = ss.localize(problem, n_samples=8, rng=1)
    >>> report = diagnose(samples, ss.predict(problem.target, 0.3))
    >>> report.fair, 0.1 < report.within < 0.15
    (True, True)
    >>> mixed = ss.anneal(problem, n_chains=16, n_sweeps=200, n_extra=400, rng=2)
    >>> diagnose(mixed).verdict[:17], diagnose(samples, reference=mixed).fair
    ('mixed: fair withi', True)
    """
    from solspace.theory.prediction import Prediction

    instance(Samples)("samples", samples)
    optional(instance(Prediction))("prediction", prediction)
    optional(instance(Samples))("reference", reference)
    if len(samples) == 0:
        raise ValueError("samples must hold at least one sample; got none.")
    _comparable(samples, prediction, reference)
    judged = samples.solved | (not samples.target.potential.hard)
    report: Values = {"n_samples": len(samples), "n_solved": int(samples.solved.sum())}
    if judged.any():
        report |= theory.stabilities_of(samples.stabilities[judged], samples, prediction)
        report |= _overlaps(samples.weights[judged], chains_of(samples)[judged], prediction)
        report["copies"] = copies(samples, judged, prediction, reference)
        _, one_each = np.unique(chains_of(samples)[judged], return_index=True)
        report |= theory.squares_of(samples.weights[judged][one_each].astype(float), prediction)
    if isinstance(samples.info, LocalizationInfo):
        report |= theory.path_of(samples.info, samples.n, prediction)
    report["mixing"] = chains.mixing(samples)
    if reference is not None:
        report["agreement"] = agreement.agreement(samples, reference)
    fair, verdict, within = _verdict(samples, report, prediction, reference)
    if fair and (lost := _lost(samples, "diverged")):
        fair, verdict, within = False, f"biased: {lost}: those are no samples of the target.", None
    elif fair and (lost := _lost(samples, "unstable")):
        fair, verdict, within = None, f"cannot tell: {lost}: they agree with what judges them, but may be biased.", None
    return Report(**report, fair=fair, verdict=verdict, within=within, notes=_notes(samples, report, prediction))


def _lost(samples: Samples, how: str) -> str:
    """Return in how many samples message passing was `how` ("diverged" or "unstable"), in words; nothing where in none."""
    words = samples.info.status if isinstance(samples.info, LocalizationInfo) else []
    lost = sum(how in word for word in words)
    return f"message passing {'was ' * (how == 'unstable')}{how} in {lost} of {len(samples)} samples" if lost else ""


def _comparable(samples: Samples, prediction: Prediction | None, reference: Samples | None) -> None:
    if prediction is not None and reference is not None:
        raise ValueError("prediction and reference both judge the samples: give one of them.")
    if reference is not None and (why := samples.differs(reference)):
        raise ValueError(f"reference must be samples of the same problem and target, but {why}.")
    if prediction is None:
        return
    # a temperature that changes nothing is not in the name
    alike = prediction.target.replace(temperature=samples.target.temperature) == samples.target
    if not alike or str(prediction.target) != str(samples.target):
        why = f"it is of {prediction.target}, and the samples are of {samples.target}"
        raise ValueError(
            f"prediction must be of the samples' target, but {why}: take ss.predict(samples.target, alpha)."
        )
    # m is a whole number: within one constraint the load is the same
    if abs(prediction.alpha * samples.n - samples.m) > 1 + 1e-9:
        why = f"it is at alpha = {prediction.alpha:g}, and the samples are at m/n = {samples.m}/{samples.n}"
        raise ValueError(f"prediction must be at the samples' load, but {why} = {samples.m / samples.n:.4g}.")


def _overlaps(weights: Array, chain: Array, prediction: Prediction | None) -> Values:
    estimate, _ = cross_overlap(chain_means(weights, chain))
    if estimate is None:
        return {}
    if prediction is not None:
        estimate = widened(estimate, Estimate(0.0, theory.instance_error(weights.shape[1])))
        estimate = replace(estimate, theory=prediction.overlap)
    return {"overlap": estimate}


def _verdict(samples: Samples, found: Values, prediction: Prediction | None, reference: Samples | None) -> Judged:
    info, k = samples.info, found["n_samples"]
    if isinstance(info, AnnealingInfo) and info.mode == "solve":
        return None, "solutions, not samples: each chain stopped at its first solution.", None
    if isinstance(info, SolvingInfo) or (isinstance(info, DrawsInfo) and info.mode == "solve"):
        return None, "solutions, not samples: some of them were found by a search that follows no law.", None
    alone = found["mixing"] is not None and prediction is None and reference is None
    failed = "" if alone else _failed(samples, found)
    if failed:
        return False, failed, None
    # chains at a load with few solutions meet each other: those that judge themselves know better
    if found.get("copies") and not alone:
        return (
            False,
            f"biased: {found['copies']} of {k} samples are copies of another one, or nearly so: keep one of each.",
            None,
        )
    if reference is not None:
        own = diagnose(reference)
        return agreement.judge(found["agreement"], own.fair, own.verdict, own.within)
    if prediction is not None:
        return theory.judge(found, samples, _cure(samples))
    if isinstance(info, AnnealingInfo):
        return chains.judge(samples, found["mixing"])
    if isinstance(info, LocalizationInfo):
        return _consistent(samples, found)
    return None, f"cannot tell: {_others(samples)}.", None


def _others(samples: Samples) -> str:
    """Return what can judge samples that do not judge themselves."""
    if samples.target.prior.name != "binary":  # nothing anneals them
        return "where patterns are random, theory could tell (a prediction)"
    return "compare with theory (a prediction, where patterns are random) or with annealed chains that have mixed (a reference)"


def _cure(samples: Samples) -> str:
    """Return what can be tried for better samples: with the sampler that drew them, or another one."""
    info, flips = samples.info, samples.target.prior.name == "binary"
    if isinstance(info, LocalizationInfo):
        found = {
            'accuracy="careful"': info.accuracy != "careful",
            "damping=0.9": info.denoiser == "amp",  # expectation propagation has none to set
            "ss.anneal": flips,
            "a lower load": True,
        }
    elif isinstance(info, AnnealingInfo):
        found = {"more n_sweeps": True, "a lower load": True}
    else:
        found = {"ss.localize": True, "ss.anneal": flips}
    *most, last = [name for name, helps in found.items() if helps]
    return f"Try {', '.join(most)} or {last}" if most else f"Try {last}"


def _failed(samples: Samples, found: Values) -> str:
    """Return what to say of samples some of which are no solutions; nothing where all are."""
    k, solved = found["n_samples"], found["n_solved"]
    if not samples.target.potential.hard or solved == k:
        return ""
    info = samples.info
    lost = [word for word in info.status if "diverged" in word] if isinstance(info, LocalizationInfo) else []
    why = f"message passing diverged in {len(lost)}" if lost else "constraints are missed"
    missed = f"{k - solved} of {k} samples are no solutions ({why})"
    if solved < k / 2:
        return f"failed: {missed}. {_cure(samples)}."
    return f"biased: {missed}; the rest may be biased. {_cure(samples)}."


def _consistent(samples: Samples, found: Values) -> Judged:
    """Return what localized samples tell by themselves: that they are biased, or that they do not contradict themselves."""
    overlap, start = found.get("overlap"), found.get("overlap_at_start")
    if overlap is None:
        return None, theory.ALONE, None
    if start is None:
        return None, f"cannot tell: {_others(samples)}.", None
    beside = replace(overlap, theory=start.value)
    pair = f"overlap {overlap.value:.4f} ± {overlap.error:.4f}, |m|²/n at t = 0 {start.value:.4f}"
    if beside.biased:
        way = "similar to" if beside.sigmas > 0 else "different from"
        words = f"samples are too {way} each other for their own marginals ({pair})"
        return False, f"biased: {words}. {_cure(samples)}.", None
    agree = f"samples agree with their own marginals, but for a bias below {overlap.visible:.4f} ({pair})"
    return None, f"cannot tell: {agree}, which shows no error that both share; {_others(samples)}.", None


def _notes(samples: Samples, found: Values, prediction: Prediction | None) -> tuple[str, ...]:
    notes = []
    if prediction is not None and isinstance(samples.info, LocalizationInfo) and not prediction.samplable:
        notes.append("theory does not expect ASL to sample fairly at this load: read the verdict with care.")
    if prediction is not None and found["mixing"] is not None:
        notes.append(f"the chains by themselves: {chains.judge(samples, found['mixing'])[1]}")
    if len(samples) < 4:
        notes.append("fewer than four samples: errors are rough.")
    return tuple(notes)
