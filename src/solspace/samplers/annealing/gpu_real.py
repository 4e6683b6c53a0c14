"""Flips on patterns of any values on a CUDA device, in fixed point."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.annealing import real_forms
from solspace.samplers.annealing.chains import Plan
from solspace.samplers.annealing.gpu import GpuFlips, processors
from solspace.samplers.annealing.layout import RealLayout
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.device import DeviceArray, fetched, sent, sent_together
from solspace.samplers.kernels.cuda import Sizes, kernel


@dataclass(eq=False)
class Columns:
    """Columns on the device, once whoever asked for them first has sent them."""

    array: Any = None
    sending: threading.Lock = field(default_factory=threading.Lock)


_sent: weakref.WeakValueDictionary[tuple[int, ...], Columns] = weakref.WeakValueDictionary()
"""What lots hold on the device: chains that follow different schedules on the same patterns share them."""
_asking = threading.Lock()


class GpuRealFlips(GpuFlips):
    """Chains on patterns of any values, in fixed point (`kernels/cuda/flips_real.cu`)."""

    kernel = "fixed point"
    source = "flips_real"
    layout: RealLayout

    def __init__(
        self,
        problems: Sequence[Perceptron],
        plan: Plan,
        keys: Sequence[int],
        n_chains: int,
        company: int = 0,
        share: int = 1,
        layout: RealLayout | None = None,
    ) -> None:
        super().__init__(problems, plan, keys, n_chains, share)
        margin = real_forms.reach_of(plan.stages)
        self.power = all(real_forms.is_power(stage) for stage in plan.stages)
        self.layout = layout or self._layout(company, n_chains == 1)
        fixed = [real_forms.fixed_point(problem, margin) for problem in problems]
        self.held = self._send(fixed)
        self.columns = self.held.array
        self.fixed = [own.lean() for own in fixed]
        self.allowed = sent(np.array([fixed.met_range(plan.target) for fixed in self.fixed], np.int32))

    def _layout(self, company: int, own: bool) -> RealLayout:
        linear = all(real_forms.is_linear(stage) for stage in self.plan.stages)
        return RealLayout.choose(self.m, self.power, self._crowd(company), processors(), linear, own)

    def _send(self, fixed: Sequence[real_forms.FixedPoint]) -> Columns:
        """Return the columns of all problems on the device, padded with zeros: those of another lot if it holds them."""
        key = (*(own.number for own in fixed), self.layout.size)
        with _asking:
            if (held := _sent.get(key)) is None:
                _sent[key] = held = Columns()
        with held.sending:  # of other columns, others are sent meanwhile
            if held.array is None:
                columns = self.cupy.zeros((len(fixed), self.n, self.layout.size), np.int32)
                columns[..., : fixed[0].columns.shape[1]] = sent_together([own.columns for own in fixed])
                held.array = columns
        return held

    def _cache(self) -> DeviceArray:
        size = self.layout.size
        states = self.cupy.empty((len(self.weights), size), np.int32)
        add = kernel("chains", "add_columns")
        grid = (len(self.weights), -(-size // 128))
        add(grid, (128,), (self.columns, self.instance_of, self.weights, np.int32(self.n), np.int32(size), states))
        return states

    def potentials(self, stages: Sequence[Stage]) -> real_forms.Forms:
        """Put the potentials of these stages into the kernel's form, for each problem."""
        return real_forms.forms(stages, self.fixed, self.power)

    def _problem(self) -> tuple[Any, ...]:
        return self.columns, np.int32(self.n), np.int32(self.m), self.allowed

    def described(self, made: real_forms.Forms) -> tuple[Any, ...]:
        """Return forms, marks, margins and kT."""
        integers = (made.marks.astype(np.int32), made.margins.astype(np.int32))
        return sent(made.forms), *map(sent, integers), sent(made.kt)

    def energies(self, energy: Array, stage: Array, made: real_forms.Forms) -> Array:
        """Return energies ΣU, (k, sweeps), of the first k chains."""
        return energy * made.unit[fetched(self.instance_of)[: len(energy), None], stage]

    def kt(self, stage: Array, made: real_forms.Forms) -> Array:
        """Return the units that make one kT where the chains are."""
        return made.kt[fetched(self.instance_of), stage]

    def weigh_into(self, energy: DeviceArray, stage: DeviceArray, given: tuple[Any, ...]) -> None:
        """Sum the energies of the constraints."""
        forms, marks, margins, kt = given
        shared = self.layout.weighing_bytes
        constants: Sizes = (*self.layout.constants(self.plan.solve), ("FIELD", 0))
        kernel(self.source, "weigh", constants, shared)(
            (len(stage),), (self.layout.threads,),
            (self.instance_of, np.int32(self.m), stage, np.int32(kt.shape[1]), forms, marks, margins, self.cached, energy),
            shared_mem=shared,
        )  # fmt: skip
