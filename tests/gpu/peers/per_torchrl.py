#!/usr/bin/env python3
"""The sum trees of torchrl, in C++ on the CPU, as its prioritized sampler uses them.

* `per_sample`: draw by the tree and weights; no states are gathered (less work than ours);
* `per_update`: new priorities to a tree of sums and to one of minima, so a scan is not needed;
* `per`: the two together. Times are the wall's.
"""

import sys
import time

from common import BATCHES, BETA, SLOTS, at, figure, figures, need, one_line, size

RUNS, CHUNK = 20, 1_000_000


def measure(torch, trees, slots):
    sums, minima = trees.SumSegmentTreeFp32(slots), trees.MinSegmentTreeFp32(slots)
    for start in range(0, slots, CHUNK):
        places = torch.arange(start, min(slots, start + CHUNK))
        priorities = torch.rand(len(places)) + 1e-3
        sums[places], minima[places] = priorities, priorities

    def sample(rows):
        total, least = sums.query(0, slots), minima.query(0, slots)
        drawn = torch.as_tensor(sums.scan_lower_bound(torch.rand(rows) * total)).clamp_(max=slots - 1)
        return drawn, (torch.as_tensor(sums[drawn]) / least).pow(-BETA)

    for rows in BATCHES:
        sampling, updating = [], []
        for run in range(RUNS + 2):
            priorities = torch.rand(rows) + 1e-3
            began = time.perf_counter()
            drawn, weights = sample(rows)
            between = time.perf_counter()
            sums[drawn], minima[drawn] = priorities, priorities
            # The first ones warm up.
            if run >= 2:
                sampling.append((between - began) * 1e6)
                updating.append((time.perf_counter() - between) * 1e6)
        if not (int(drawn.min()) >= 0 and 0.0 < float(weights.min()) and float(weights.max()) <= 1.001):
            sys.exit("error: torchrl: a weight is outside of (0, 1]")
        name = f"{size(slots)} x {rows}"
        figures(f"per_sample {name}", "torchrl (CPU)", sampling, "wall time, without states")
        figures(f"per_update {name}", "torchrl (CPU)", updating, "wall time; the tree's sums with it")
        total = at(sampling, 0.5) + at(updating, 0.5)
        figure(f"per {name} by torchrl (CPU)", total, "us", "sample and update")


def main():
    torch, torchrl, trees = need("torch", "torchrl", "torchrl._torchrl")
    print(torch.__version__, torchrl.__version__)
    for slots in SLOTS[:2]:
        try:
            measure(torch, trees, slots)
        except Exception as error:  # Of any kind: the other size is still to be had.
            print(f"skipped: {slots} slots: {one_line(error)}")


if __name__ == "__main__":
    main()
