"""Judge whether samples are fair: by theory, by themselves, or by another sampler; and within what bias.

- `comparison`: with the prediction of replica theory, for random patterns, or with another sampler that is trusted.
- `chains`: annealed chains with draws after their schedule, by themselves, on any patterns.

Localized samples alone are compared with their own marginals at t = 0, whose |m|²/n is the overlap of two samples. An error
shared by the whole path does not show there, so this comparison never calls samples fair.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from solspace.diagnostics import chains, comparison
from solspace.diagnostics.report import Agreement, Distance, Estimate, Mixing, Report, Verdict
from solspace.info import AnnealingInfo, LocalizationInfo
from solspace.samples import Samples
from solspace.system.checks import instance, optional

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction

__all__ = ["Agreement", "Distance", "Estimate", "Mixing", "Report", "diagnose"]


def diagnose(samples: Samples, prediction: Prediction | None = None, reference: Samples | None = None) -> Report:
    """Judge whether samples are fair: by theory, by a reference, or by the samples alone.

    Without `prediction` and `reference`, chains with draws after their schedule are judged by themselves, and localized samples
    are compared with their own marginals at t = 0.

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
    k = len(samples)
    if k == 0:
        raise ValueError("samples must hold at least one sample; got none.")
    _comparable(samples, prediction, reference)
    found = Report(
        k,
        int(samples.solved.sum()),
        **comparison.measure(samples, prediction, reference),
        mixing=chains.mixing(samples, samples.info) if isinstance(samples.info, AnnealingInfo) else None,
        agreement=None if reference is None else comparison.agreement(samples, reference),
    )
    verdict = _verdict(samples, found, prediction, reference)
    if verdict.fair and (lost := _lost(samples, "diverged")):
        words = f"message passing diverged in {lost} of {k} samples: those are no samples of the target"
        verdict = Verdict(False, f"biased: {words}.")
    elif verdict.fair and (lost := _lost(samples, "unstable")):
        words = f"message passing was unstable in {lost} of {k} samples"
        verdict = Verdict(None, f"cannot tell: {words}: they agree with what judges them, but may be biased.")
    notes = _notes(samples, found, prediction)
    return replace(found, fair=verdict.fair, verdict=verdict.words, within=verdict.within, notes=notes)


def _comparable(samples: Samples, prediction: Prediction | None, reference: Samples | None) -> None:
    if prediction is not None and reference is not None:
        raise ValueError("prediction and reference both judge the samples: give one of them.")
    if reference is not None and (why := samples.differs(reference)):
        raise ValueError(f"reference must be samples of the same problem and target, but {why}.")
    if prediction is None:
        return
    own, other = samples.target, prediction.target
    # a temperature that changes nothing is not in the name
    if own != other and (other.replace(temperature=own.temperature) != own or str(own) != str(other)):
        raise ValueError(f"prediction must be ss.predict(samples.target, alpha), of {own}; got one of {other}.")
    # m is a whole number: within one constraint the load is the same
    if abs(prediction.alpha * samples.n - samples.m) > 1 + 1e-9:
        load = f"m/n = {samples.m}/{samples.n} = {samples.m / samples.n:.4g}"
        raise ValueError(f"prediction must be at the samples' load, {load}; it is at alpha = {prediction.alpha:g}.")


def _verdict(samples: Samples, found: Report, prediction: Prediction | None, reference: Samples | None) -> Verdict:
    info, k = samples.info, found.n_samples
    if isinstance(info, AnnealingInfo) and info.mode == "solve":
        return Verdict(None, "solutions, not samples: each chain stopped at its first solution.")
    if info.lawless:
        return Verdict(None, "solutions, not samples: some of them were found by a search that follows no law.")
    # with few solutions independent chains meet: chains that are judged by themselves are not judged by their copies
    if found.mixing is None or prediction is not None or reference is not None:
        if samples.target.potential.hard and found.n_solved < k:
            return Verdict(False, _failed(samples, k - found.n_solved))
        if found.copies:
            words = f"{found.copies} of {k} samples are copies of another one, or nearly so: keep one of each"
            return Verdict(False, f"biased: {words}.")
    if reference is not None:
        return comparison.judge_by_reference(found.agreement, diagnose(reference))
    if prediction is not None:
        return comparison.judge_by_theory(found, samples, _cure(samples))
    if isinstance(info, AnnealingInfo):
        return chains.judge(info, found.mixing)
    if isinstance(info, LocalizationInfo):
        return _consistent(samples, found)
    return Verdict(None, f"cannot tell: {_others(samples)}.")


def _lost(samples: Samples, how: str) -> int:
    """Return in how many samples message passing was `how` ("diverged" or "unstable")."""
    return sum(how in words for words in samples.info.status) if isinstance(samples.info, LocalizationInfo) else 0


def _failed(samples: Samples, missing: int) -> str:
    lost, k = _lost(samples, "diverged"), len(samples)
    why = f"message passing diverged in {lost}" if lost else "constraints are missed"
    word, rest = ("failed", "") if missing > k / 2 else ("biased", "; the rest may be biased")
    return f"{word}: {missing} of {k} samples are no solutions ({why}){rest}. {_cure(samples)}."


def _consistent(samples: Samples, found: Report) -> Verdict:
    """Return whether localized samples agree with their own marginals; never that they are fair."""
    overlap, start = found.overlap, found.overlap_at_start
    if overlap is None:
        return Verdict(None, comparison.ALONE)
    if start is None:
        return Verdict(None, f"cannot tell: {_others(samples)}.")
    beside = replace(overlap, theory=start.value)
    pair = f"overlap {overlap.value:.4f} ± {overlap.error:.4f}, |m|²/n at t = 0 {start.value:.4f}"
    if beside.biased:
        words = f"samples are {comparison.too(beside)} each other for their own marginals ({pair})"
        return Verdict(False, f"biased: {words}. {_cure(samples)}.")
    agree = f"samples agree with their own marginals, but for a bias below {overlap.visible:.4f} ({pair})"
    return Verdict(None, f"cannot tell: {agree}, which shows no error that both share; {_others(samples)}.")


def _others(samples: Samples) -> str:
    """Return what can judge samples that cannot be judged by themselves."""
    if samples.target.prior.name not in ("binary", "levels"):  # which cannot be annealed
        return "where patterns are random, theory could tell (a prediction)"
    return "compare with theory (a prediction, where patterns are random) or with annealed chains that have mixed (a reference)"


def _cure(samples: Samples) -> str:
    """Return what may give better samples: arguments of the sampler that drew them, or another sampler."""
    info, flips = samples.info, ["ss.anneal"] * (samples.target.prior.name in ("binary", "levels"))
    if isinstance(info, LocalizationInfo):
        careful = ['accuracy="careful"'] * (info.accuracy != "careful")
        damping = ["damping=0.9"] * (info.denoiser == "amp")  # expectation propagation has no such argument
        found = [*careful, *damping, *flips, "a lower load"]
    else:
        found = ["more n_sweeps", "a lower load"] if isinstance(info, AnnealingInfo) else ["ss.localize", *flips]
    return f"Try {' or '.join(filter(None, [', '.join(found[:-1]), found[-1]]))}"


def _notes(samples: Samples, found: Report, prediction: Prediction | None) -> tuple[str, ...]:
    notes = []
    if prediction is not None and isinstance(samples.info, LocalizationInfo) and not prediction.samplable:
        notes.append("theory does not expect ASL to sample fairly at this load: read the verdict with care.")
    if prediction is not None and found.mixing is not None and isinstance(samples.info, AnnealingInfo):
        notes.append(f"the chains by themselves: {chains.judge(samples.info, found.mixing).words}")
    if found.n_samples < 4:
        notes.append("fewer than four samples: errors are rough.")
    return tuple(notes)
