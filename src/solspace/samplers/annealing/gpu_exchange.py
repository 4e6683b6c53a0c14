"""Replica exchange on a CUDA device: sweeps and exchanges follow each other there, and the host looks at some of them at a time.

Which replica is at which rung stays on the device (`kernels/cuda/chains.cu`, exchange), so that nothing waits for the host
between two sweeps. Ladders are those of the processor, bit for bit: energies are integers, and the host draws the luck.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from solspace.numerics.arrays import Array
from solspace.samplers.annealing.chains import Plan
from solspace.samplers.annealing.exchange import Exchange, Ladders
from solspace.samplers.annealing.gpu import GpuFlips
from solspace.samplers.annealing.ladder import MakeFlips
from solspace.samplers.annealing.run import BEAT
from solspace.samplers.device import DeviceArray, fetched, sent
from solspace.samplers.kernels.cuda import kernel

_FIRST, _MOST = 4, 64
"""Sweeps between two looks of the host: at first, and at the most."""


class GpuExchange(Exchange):
    """Ladders on a device on their way through the sweeps after the schedule."""

    flips: GpuFlips

    def __init__(self, make: MakeFlips, ladders: Ladders, plan: Plan, key: int) -> None:
        super().__init__(make, ladders, plan, key)
        self.count = _FIRST
        flips, device, replicas = self.flips, self.flips.cupy, ladders.replicas
        k, rungs, group = len(replicas.weights), len(ladders.rungs), flips.layout.group
        self.width = -(-len(ladders.trips) // group) * group
        rows = np.full((rungs, self.width), -1, np.int32)
        rows[:, : len(ladders.trips)] = ladders.places().T
        stage = replicas.first_stage().astype(np.int32)
        with flips.stream:
            self.rows, self.stage = sent(rows.ravel()), sent(stage)
            self.partner = sent(self.partners(replicas.sweep)[stage].astype(np.int32))
            self.way, self.trips = sent(ladders.way), sent(ladders.trips)
            self.other = device.zeros(k, np.int64)
            self.potentials = flips.described(flips.rungs)
            units = flips.kt(np.arange(k) % rungs, flips.rungs)[:rungs]  # row r of the first ladder, at rung r
            self.units = sent(units.astype(np.float64))
            self.given = np.int32(0), np.int32(rungs), *self.potentials
            self.bath = sent(np.ones(1, np.uint8)), sent(np.full(1, -1, np.int32))
            self.made = {
                "accepted": device.zeros((k, 1), np.int32),
                "energy": device.zeros((k, 1), np.int64),
                "draws": device.zeros((k, 0, flips.n), np.int8),
            }
        self.coming = self._luck()

    def _luck(self) -> tuple[slice, Array]:
        """Return the next sweeps and what decides their exchanges, (sweeps, C, R - 1)."""
        from solspace.samplers.kernels.philox import exponentials

        ladders, first = self.ladders, self.ladders.replicas.sweep
        sweeps = slice(first, min(first + self.count, len(self.plan)))
        luck = np.empty((sweeps.stop - first, len(ladders.trips), len(ladders.rungs) - 1))
        for sweep, own in zip(range(first, sweeps.stop), luck):
            exponentials(self.key, sweep, own)
        return sweeps, luck

    def step(self) -> None:
        """Make some sweeps of all replicas, exchange after each, and draw where the plan says so."""
        begun = time.perf_counter()
        sweeps, luck = self.coming
        count, c, device = len(luck), len(self.ladders.trips), self.flips.cupy
        drawn = np.flatnonzero(self.plan.draw_at[sweeps] >= 0)
        with self.flips.stream:
            there = sent(luck)
            made = {
                "swaps": device.zeros(len(self.ladders.rungs) - 1, np.int32),
                "accepted": device.zeros((c, count), np.int32),
                "energy": device.zeros((c, count), np.int64),
                "draws": device.zeros((len(drawn), c, self.flips.n), np.int8),
            }
            orders, length = self.flips.orders(sweeps)
            for at in range(count):
                told = *self.bath, orders[0, at], np.int32(length)
                self.flips.walk(self.rows, self.stage, sweeps.start + at, 1, self.given, told, self.made)
                self._exchange(sweeps.start + at, at, there, made)
                if at in drawn:
                    last = self.rows[-self.width :][:c]
                    made["draws"][int(np.searchsorted(drawn, at))] = self.flips.weights[last]
        self.ladders.replicas.sweep = sweeps.stop
        self.coming = self._luck()  # while the device is busy
        self._collect(sweeps, made)
        pace = BEAT / max(time.perf_counter() - begun, 1e-9)
        self.count = int(np.clip(count * min(pace, 2.0), 1, _MOST))

    def _exchange(self, sweep: int, at: int, luck: DeviceArray, made: dict[str, DeviceArray]) -> None:
        """Exchange neighbours after `sweep`, the `at`-th of those with this luck."""
        flips, rungs = self.flips, len(self.ladders.rungs)
        flips.weigh_into(self.other, self.partner, self.potentials)
        sizes = map(np.int32, (rungs, sweep % 2, at, made["accepted"].shape[1], self.width))
        kernel("chains", "exchange")(
            (len(self.ladders.trips),), (32,),
            (
                *sizes, self.units, luck, self.made["energy"], self.other, self.made["accepted"], self.rows, self.stage,
                self.partner, made["swaps"], self.way, self.trips, made["accepted"], made["energy"],
            ),
        )  # fmt: skip

    def _collect(self, sweeps: slice, made: dict[str, DeviceArray]) -> None:
        """Wait for the sweeps and take over what they made."""
        ladders, replicas, flips = self.ladders, self.ladders.replicas, self.flips
        kept = slice(sweeps.start - self.plan.n_anneal, sweeps.stop - self.plan.n_anneal)
        with flips.stream:
            solved_at, _ = flips.look()
            found: dict[str, Any] = {name: fetched(values) for name, values in made.items()}
            stage, way, trips = (fetched(a) for a in (self.stage, self.way, self.trips))
        last = np.full(found["energy"].shape, len(ladders.rungs) - 1)
        ladders.energy[:, kept] = flips.energies(found["energy"], last, flips.rungs)
        ladders.accepted[:, kept] = found["accepted"]
        at = self.plan.draw_at[sweeps]
        ladders.draws[:, at[at >= 0]] = found["draws"].swapaxes(0, 1)
        replicas.stage, replicas.solved_at[...] = stage.astype(np.int64), solved_at
        ladders.way[...], ladders.trips[...] = way, trips
        for sweep in range(sweeps.start, sweeps.stop):
            ladders.swaps[0, sweep % 2 :: 2] += len(ladders.trips)
        ladders.swaps[1] += found["swaps"]
