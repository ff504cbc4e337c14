#!/usr/bin/env python3
"""Prioritized replay with cpprb, in C++ on the CPU: draw, weights and rows gathered; new priorities.

It sums in trees, so a scan is not needed. At one million slots alone: filling more takes minutes.
"""

import sys
import time

from common import ALPHA, BATCHES, BETA, SLOTS, STATE_DIM, at, figure, figures, need, size

RUNS, CHUNK = 20, 100_000


def main():
    numpy, cpprb = need("numpy", "cpprb")
    slots = SLOTS[0]
    fields = {"obs": {"shape": STATE_DIM}, "act": {}, "rew": {}, "next_obs": {"shape": STATE_DIM}, "done": {}}
    buffer = cpprb.PrioritizedReplayBuffer(slots, fields, alpha=ALPHA)
    states, zeros = numpy.zeros((CHUNK, STATE_DIM), numpy.float32), numpy.zeros(CHUNK)
    for _ in range(slots // CHUNK):
        priorities = numpy.random.rand(CHUNK) + 1e-3
        buffer.add(obs=states, act=zeros, rew=zeros, next_obs=states, done=zeros, priorities=priorities)
    for rows in BATCHES:
        sampling, updating = [], []
        for run in range(RUNS + 2):
            priorities = numpy.random.rand(rows) + 1e-3
            began = time.perf_counter()
            batch = buffer.sample(rows, beta=BETA)
            between = time.perf_counter()
            buffer.update_priorities(batch["indexes"], priorities)
            # The first ones warm up.
            if run >= 2:
                sampling.append((between - began) * 1e6)
                updating.append((time.perf_counter() - between) * 1e6)
        if batch["indexes"].max() >= slots or not 0.0 < batch["weights"].max() <= 1.001:
            sys.exit("error: cpprb: a draw or a weight is out of bounds")
        name = f"{size(slots)} x {rows}"
        figures(f"per_sample {name}", "cpprb (CPU)", sampling, "wall time")
        figures(f"per_update {name}", "cpprb (CPU)", updating, "wall time; the tree's sums with it")
        total = at(sampling, 0.5) + at(updating, 0.5)
        figure(f"per {name} by cpprb (CPU)", total, "us", "sample and update")


if __name__ == "__main__":
    main()
