#!/usr/bin/env python3
"""The learning step with JAX and optax: what ours does behind the draw, 100 of them in one compiled loop.

Forward passes of online and target network, double DQN, Huber loss with importance weights, backward pass, clip by the
global norm, Adam, Polyak target. The time is the wall's, so that it holds one launch for 100 steps.
"""

import os
import sys
import time

from common import (ACTIONS, BATCHES, CLIP, GAMMA, HEAD, HIDDEN, LEARNING_RATE, PRECISIONS, STATE_DIM, TAU,
                    check_td_errors, figures, need, one_line, reference_td_errors)

# Else it takes most of the memory at once.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

STEPS, RUNS, CHECKED = 100, 5, 128
PRODUCTS = {"bf16": "default", "tf32": "tensorfloat32", "fp32": "highest"}


def initial(jax, key):
    sizes = [(STATE_DIM, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, HEAD), (HEAD, 1), (HIDDEN, HEAD), (HEAD, ACTIONS)]
    keys = jax.random.split(key, len(sizes))
    scaled = lambda key, pair: jax.random.normal(key, pair) * (2.0 / pair[0]) ** 0.5
    return [(scaled(key, pair), jax.numpy.zeros(pair[1])) for key, pair in zip(keys, sizes)]


def measure(jax, optax, precision, rows):
    jnp = jax.numpy
    kind = jnp.bfloat16 if precision == "bf16" else jnp.float32
    relu = jax.nn.relu

    def q_values(layers, x):
        def linear(at, x):
            weight, bias = layers[at]
            return jnp.dot(x.astype(kind), weight.astype(kind), preferred_element_type=jnp.float32) + bias

        trunk = relu(linear(1, relu(linear(0, x))))
        value, advantage = linear(3, relu(linear(2, trunk))), linear(5, relu(linear(4, trunk)))
        return value + advantage - advantage.mean(1, keepdims=True)

    keys = jax.random.split(jax.random.PRNGKey(0), 7)
    batch = {
        "states": jax.random.normal(keys[0], (rows, STATE_DIM)),
        "next_states": jax.random.normal(keys[1], (rows, STATE_DIM)),
        "actions": jax.random.randint(keys[2], (rows,), 0, ACTIONS),
        "rewards": jax.random.normal(keys[3], (rows,)),
        "dones": (jax.random.uniform(keys[4], (rows,)) < 0.05).astype(jnp.float32),
    }
    weights = jax.random.uniform(keys[5], (rows,))
    optimizer = optax.chain(optax.clip_by_global_norm(CLIP), optax.adam(LEARNING_RATE))
    pick = lambda q, actions: jnp.take_along_axis(q, actions[:, None], 1)[:, 0]

    def loss(online, target):
        best = q_values(online, batch["next_states"]).argmax(1)
        bootstrap = pick(q_values(target, batch["next_states"]), best)
        targets = jax.lax.stop_gradient(batch["rewards"] + GAMMA * (1.0 - batch["dones"]) * bootstrap)
        q = pick(q_values(online, batch["states"]), batch["actions"])
        return (weights * optax.huber_loss(q, targets)).mean(), targets - q

    def learn(carried, _):
        online, target, state = carried
        (value, td_errors), gradient = jax.value_and_grad(loss, has_aux=True)(online, target)
        updates, state = optimizer.update(gradient, state)
        online = optax.apply_updates(online, updates)
        target = jax.tree.map(lambda old, new: old + TAU * (new - old), target, online)
        # Used, so that they are computed: the update of priorities would want them.
        return (online, target, state), (value, jnp.abs(td_errors).max())

    online = initial(jax, keys[6])
    carried = (online, jax.tree.map(jnp.copy, online), optimizer.init(online))
    label = f"JAX, {precision}, {rows} rows"
    rows_of = {name: values[:CHECKED] for name, values in batch.items()}
    td_errors = jax.jit(loss)(online, carried[1])[1]
    check_td_errors(label, precision, td_errors[:CHECKED], reference_td_errors(online, carried[1], rows_of))

    run = jax.jit(lambda carried: jax.lax.scan(learn, carried, None, length=STEPS), donate_argnums=0)
    carried, _ = jax.block_until_ready(run(carried))
    times = []
    for _ in range(RUNS):
        began = time.perf_counter()
        carried, _ = jax.block_until_ready(run(carried))
        times.append((time.perf_counter() - began) * 1e6 / STEPS)
    figures(f"learn x {rows} {precision}", "JAX", times, f"wall time of {STEPS} steps in one compiled loop")


def main():
    jax, optax = need("jax", "optax")
    if jax.default_backend() != "gpu":
        print("skipped: JAX sees no GPU")
        sys.exit(0)
    print(jax.__version__, jax.devices()[0].device_kind)
    for rows in BATCHES:
        for precision in PRECISIONS:
            try:
                with jax.default_matmul_precision(PRODUCTS[precision]):
                    measure(jax, optax, precision, rows)
            except Exception as error:  # Of any kind: the other variants are still to be had.
                print(f"skipped: {precision}, {rows} rows: {one_line(error)}")


if __name__ == "__main__":
    main()
