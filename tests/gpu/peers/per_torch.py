#!/usr/bin/env python3
"""Prioritized replay with torch on the GPU, its phases in CUDA graphs; see `torch_replay.py` for what is computed.

`torch` sums in f32, as one would write it, and cannot draw every slot; `torch f64` is as exact as ours.
"""

import gc
import sys

from common import BATCHES, SLOTS, TorchClock, at, figure, figures, need, size
from torch_replay import TorchReplay


def check(torch, memory, rows, who):
    """The draws against sums in f64: how many are another slot, and how far off in the total."""
    memory.scan()
    slots, weights, _ = memory.sample(rows)
    ends = torch.cumsum(memory.priorities, 0, dtype=torch.float64)
    exact = torch.searchsorted(ends, memory.targets.double(), right=True).clamp_(max=memory.slots - 1)
    other = (slots != exact).double().mean().item()
    off = ((ends[slots] - memory.targets.double()).abs().max() / ends[-1]).item()
    if not (off < 1e-2 and 0.0 < weights.min().item() and weights.max().item() == 1.0):
        sys.exit(f"error: {who}: draws are off by {off:.1e} of the total")
    figure(f"draws_off {size(memory.slots)} x {rows} by {who}", 100.0 * other, "%", f"at most {off:.1e} of the total")


def measure(torch, clock, slots, sums, who):
    memory = TorchReplay(torch, slots, sums)
    for rows in BATCHES:
        check(torch, memory, rows, who)
        name = lambda phase: f"{phase} {size(slots)} x {rows}"
        td_errors = torch.rand(rows, device="cuda")
        drawn = memory.sample(rows)[0].clone()

        def whole():
            memory.scan()
            memory.update(memory.sample(rows)[0], td_errors)

        phases = {
            "per_scan": memory.scan,
            "per_sample": lambda: memory.sample(rows),
            "per_update": lambda: memory.update(drawn, td_errors),
        }
        for phase, work in phases.items():
            figures(name(phase), who, clock.pairs(clock.graph(work), 100), "graph, pair minus empty pair")
        replay = clock.graph(whole)
        figure(f"{name('per')} by {who}", at(clock.back_to_back(replay, 100), 0.5), "us", "one graph, back to back")


def main():
    torch = need("torch")
    print(torch.__version__, torch.cuda.get_device_name())
    clock = TorchClock(torch)
    for slots in SLOTS:
        for sums, who in [(torch.float32, "torch"), (torch.float64, "torch f64")]:
            gc.collect()
            torch.cuda.empty_cache()
            free, needed = torch.cuda.mem_get_info()[0], TorchReplay.bytes_needed(slots)
            if free < needed:
                print(f"skipped: {slots} slots: {needed >> 20} MiB are needed and {free >> 20} are free")
                continue
            measure(torch, clock, slots, sums, who)


if __name__ == "__main__":
    main()
