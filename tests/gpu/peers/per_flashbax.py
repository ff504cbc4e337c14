#!/usr/bin/env python3
"""Prioritized replay with flashbax (JAX): a sum tree on the GPU.

* `per_sample`: draw by the tree, probabilities, and both states of each row gathered from consecutive slots;
* `per_update`: new priorities to leaves and sums above them, so a scan is not needed; weights are not computed (less
  work than ours);
* `per`: the two together. Times are the wall's, with dispatch, as a training loop would see them.
"""

import os
import sys
import time

from common import ALPHA, BATCHES, SLOTS, STATE_DIM, at, figure, figures, need, one_line, size

os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.8")
RUNS, CHUNK = 60, 500_000


def make(flashbax, slots, rows):
    return flashbax.make_prioritised_flat_buffer(
        max_length=slots, min_length=rows, sample_batch_size=rows, add_sequences=True, add_batch_size=None,
        priority_exponent=ALPHA, device="gpu",
    )


def filled(jax, flashbax, slots):
    jnp = jax.numpy
    buffer = make(flashbax, slots, BATCHES[0])
    state = buffer.init({"state": jnp.zeros(STATE_DIM), "reward": jnp.zeros(())})
    add = jax.jit(buffer.add, donate_argnums=0)
    chunk = {"state": jnp.ones((CHUNK, STATE_DIM)), "reward": jnp.ones(CHUNK)}
    for _ in range(slots // CHUNK):
        state = add(state, chunk)
    return state


def measure(jax, flashbax, state, slots, rows):
    """Gives the state back, as an update takes it away."""
    buffer = make(flashbax, slots, rows)
    sample, update = jax.jit(buffer.sample), jax.jit(buffer.set_priorities, donate_argnums=0)
    key = jax.random.PRNGKey(0)
    sampling, updating = [], []
    for run in range(RUNS + 3):
        key, other, more = jax.random.split(key, 3)
        priorities = jax.block_until_ready(jax.random.uniform(more, (rows,)) + 1e-3)
        began = time.perf_counter()
        batch = jax.block_until_ready(sample(state, other))
        between = time.perf_counter()
        state = jax.block_until_ready(update(state, batch.indices, priorities))
        ended = time.perf_counter()
        if run == 0:
            inside = (batch.indices >= 0) & (batch.indices < slots) & (batch.probabilities > 0.0)
            if not bool(inside.all()):
                sys.exit("error: flashbax: a draw is outside of the buffer")
        # The first ones compile.
        if run >= 3:
            sampling.append((between - began) * 1e6)
            updating.append((ended - between) * 1e6)
    name = f"{size(slots)} x {rows}"
    figures(f"per_sample {name}", "flashbax", sampling, "wall time, with dispatch")
    figures(f"per_update {name}", "flashbax", updating, "wall time, with dispatch; the tree's sums with it")
    figure(f"per {name} by flashbax", at(sampling, 0.5) + at(updating, 0.5), "us", "sample and update")
    return state


def main():
    jax, flashbax = need("jax", "flashbax")
    if jax.default_backend() != "gpu":
        print("skipped: JAX sees no GPU")
        sys.exit(0)
    print(jax.__version__, getattr(flashbax, "__version__", ""))
    # At 100M, states do not fit beside the copies that adding makes.
    for slots in SLOTS[:2]:
        try:
            state = filled(jax, flashbax, slots)
            for rows in BATCHES:
                state = measure(jax, flashbax, state, slots, rows)
        except Exception as error:  # Of any kind: the other size is still to be had.
            print(f"skipped: {slots} slots: {one_line(error)}")
        # Before the next is filled.
        state = None


if __name__ == "__main__":
    main()
