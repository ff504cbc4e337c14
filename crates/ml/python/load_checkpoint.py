#!/usr/bin/env python3
"""Loads a checkpoint of the training step, and computes Q values with numpy.

    load_checkpoint.py CHECKPOINT
        Says what is in it.
    load_checkpoint.py CHECKPOINT EXAMPLES [--network target] [--tolerance 1e-5]
        EXAMPLES is a safetensors file with `states` [rows, state_dim]. Prints Q values, one JSON list a row.
        Where it also has `q_values` [rows, actions] they are compared instead: exit code 1 where
        |computed - given| / |given| is above the tolerance.

Needs the packages `safetensors` and `numpy`. To have the network in PyTorch, load the same names with
`safetensors.torch.load_file` into modules `trunk`, `value` and `advantage`, each a list of `nn.Linear`.
"""

import argparse
import json
import sys

import numpy
from safetensors import safe_open

FORMAT = "foxhunt-dqn-step-2"


def load(path):
    """All tensors by name, and the metadata. Refuses a file of another kind."""
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata() or {}
        if metadata.get("format") != FORMAT:
            sys.exit(f"error: `{path}`: its `format` is {metadata.get('format')!r}, and {FORMAT!r} is expected")
        return {name: file.get_tensor(name) for name in file.keys()}, metadata


def q_values(tensors, states, prefix=""):
    """Q values [rows, actions]: V + A - mean A, ReLU behind every layer but the last of a head."""

    def linear(name, x):
        weight = tensors[f"{prefix}{name}.weight"].astype(numpy.float64)
        return x @ weight.T + tensors[f"{prefix}{name}.bias"].astype(numpy.float64)

    def relu(x):
        return numpy.maximum(x, 0.0)

    x = states.astype(numpy.float64)
    layer = 0
    while f"{prefix}trunk.{layer}.weight" in tensors:
        x = relu(linear(f"trunk.{layer}", x))
        layer += 1
    value = linear("value.1", relu(linear("value.0", x)))
    advantage = linear("advantage.1", relu(linear("advantage.0", x)))
    return value + advantage - advantage.mean(axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("examples", nargs="?")
    parser.add_argument("--network", choices=["online", "target"], default="online")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    arguments = parser.parse_args()
    tensors, metadata = load(arguments.checkpoint)
    if arguments.examples is None:
        print(f"network {metadata['network']}")
        for name, tensor in sorted(tensors.items()):
            numbers = f" = {tensor.tolist()}" if name.startswith("step.") else ""
            print(f"{name} {tensor.dtype} {list(tensor.shape)}{numbers}")
        return
    with safe_open(arguments.examples, framework="numpy") as file:
        states = file.get_tensor("states")
        given = file.get_tensor("q_values") if "q_values" in file.keys() else None
    computed = q_values(tensors, states, "target." if arguments.network == "target" else "")
    if given is None:
        for row in computed.tolist():
            print(json.dumps(row))
        return
    error = numpy.linalg.norm(computed - given) / numpy.linalg.norm(given)
    print(f"{len(states)} states: the Q values differ by {error:.2e}, relative")
    # A comparison with NaN is false, which must not pass.
    if not error <= arguments.tolerance:
        sys.exit(1)


if __name__ == "__main__":
    main()
