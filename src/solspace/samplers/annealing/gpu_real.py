"""Flips on patterns of any values on a CUDA device, in fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.annealing import real_forms
from solspace.samplers.annealing.chains import Plan
from solspace.samplers.annealing.gpu import GpuFlips, processors
from solspace.samplers.annealing.layout import RealLayout
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.kernels.cuda import Sizes, kernel

_FORM = ("forms", "marks", "margins", "kt", "unit")


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
        self.layout = layout or self._layout(company)
        self.columns = self.cupy.zeros((len(problems), self.n, self.layout.size), np.int32)
        self.fixed = []
        for number, problem in enumerate(problems):
            fixed = real_forms.FixedPoint(problem, margin)
            self.columns[number, :, : self.m] = self.cupy.asarray(fixed.columns[:, : self.m])
            del fixed.columns
            self.fixed.append(fixed)
        self.allowed = self.cupy.asarray(np.array([fixed.met_range(plan.target) for fixed in self.fixed], np.int32))

    def _layout(self, company: int) -> RealLayout:
        return RealLayout.choose(self.m, self.power, self._crowd(company), processors())

    def _cache(self) -> Any:
        states = self.cupy.zeros((len(self.weights), self.layout.size), np.int32)
        for number in range(len(self.problems)):
            rows = self.instance_of == number
            weights = self.weights[rows].astype(np.float64)
            for first in range(0, self.m, 1024):
                part = slice(first, min(first + 1024, self.m))
                halves = (self.columns[number, :, part] // 2).astype(np.float64)
                states[rows, part] = (weights @ halves).astype(np.int32)
        return states

    def potentials(self, stages: Sequence[Stage]) -> Any:
        """Put the potentials of these stages into the kernel's form, for each problem."""
        made = [real_forms.forms(stages, fixed, self.power) for fixed in self.fixed]
        return real_forms.Forms(*(np.stack([getattr(form, name) for form in made]) for name in _FORM))

    def _problem(self) -> tuple[Any, ...]:
        return self.columns, np.int32(self.n), np.int32(self.m), self.allowed

    def _potentials(self, made: Any) -> tuple[Any, ...]:
        integers = (made.marks.astype(np.int32), made.margins.astype(np.int32))
        return self.cupy.asarray(made.forms), *map(self.cupy.asarray, integers), self.cupy.asarray(made.kt)

    def _energy(self, energy: Array, stage: Array, made: Any) -> Array:
        return energy * made.unit[self.instance_of.get()[:, None], stage]

    def _weigh(self, stage: Any, made: Any) -> tuple[Array, Array]:
        energy = self.cupy.zeros(len(stage), np.int64)
        forms, marks, margins, kt = self._potentials(made)
        shared = self.layout.weighing_bytes
        constants: Sizes = (*self.layout.constants(self.plan.solve), ("FIELD", 0))
        kernel(self.source, "weigh", constants, shared)(
            (len(stage),), (self.layout.threads,),
            (
                self.instance_of, np.int32(self.m), stage, np.int32(made.kt.shape[1]), forms, marks, margins, self.cached,
                energy,
            ),
            shared_mem=shared,
        )  # fmt: skip
        return energy.get(), kt.get()[self.instance_of.get(), stage.get()]
