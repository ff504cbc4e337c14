"""What the scripts of this folder share: the reference sizes, how a figure is printed, how a GPU is timed.

A figure's name has the form that `cargo xtask gpu-run` reads: `PHASE [N] [x B] [PRECISION] [p99] by WHO`.
"""

import importlib
import sys

STATE_DIM, HIDDEN, HEAD, ACTIONS = 80, 384, 192, 45
SLOTS = [1_000_000, 24_700_000, 100_000_000]
BATCHES = [16_384, 512]
PRECISIONS = ["bf16", "tf32", "fp32"]
ALPHA, BETA, EPS = 0.6, 0.4, 1e-6
GAMMA, TAU, LEARNING_RATE, CLIP = 0.99, 0.005, 1e-4, 10.0

# TD errors against f64, relative. Wider than ours: autocast also rounds what comes out of each layer.
TOLERANCE = {"fp32": 1e-4, "tf32": 1e-2, "bf16": 5e-2}


def need(*names):
    """The modules; ends the script, without a failure, where one is missing."""
    modules = []
    for name in names:
        try:
            modules.append(importlib.import_module(name))
        except ModuleNotFoundError as missing:
            skip(f"{missing.name} is not installed")
        except (ImportError, OSError) as error:
            skip(f"{name} cannot be imported: {one_line(error)}")
    return modules[0] if len(modules) == 1 else modules


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(0)


def one_line(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def size(slots):
    """24700000 is `24.7M`."""
    return f"{slots / 1e6:g}M" if slots % 100_000 == 0 else str(slots)


def figure(name, value, unit, detail=""):
    print(f"figure: {name} = {value:.6g} {unit}" + (f" | {detail}" if detail else ""), flush=True)


def figures(what, who, microseconds, detail, least_for_p99=50):
    """Median and p99 of the times of `what`; few times have no p99."""
    figure(f"{what} by {who}", at(microseconds, 0.5), "us", detail)
    if len(microseconds) >= least_for_p99:
        figure(f"{what} p99 by {who}", at(microseconds, 0.99), "us", detail)


def at(values, share):
    """The value below which this share lies."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


class TorchClock:
    """Times work on the GPU by events, with the host far enough ahead that the GPU never waits for a launch."""

    def __init__(self, torch):
        self.torch = torch
        self.block = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
        self.empty_pair = at(self._pairs(lambda: None, 200), 0.5)

    def pairs(self, work, count):
        """Microseconds of each run, a pair minus an empty pair."""
        return [max(time - self.empty_pair, 0.0) for time in self._pairs(work, count)]

    def back_to_back(self, work, count, runs=5):
        """Microseconds of one of `count` runs in a row."""
        means = []
        for _ in range(runs):
            start, end = self._event(), self._event()
            start.record()
            for _ in range(count):
                work()
            end.record()
            end.synchronize()
            means.append(start.elapsed_time(end) * 1e3 / count)
        return means

    def graph(self, work):
        """`work` as one captured graph, warmed up."""
        torch = self.torch
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(3):
                work()
        torch.cuda.current_stream().wait_stream(beside)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            work()
        for _ in range(10):
            captured.replay()
        return captured.replay

    def _event(self):
        return self.torch.cuda.Event(enable_timing=True)

    def _pairs(self, work, count):
        for _ in range(60):
            self.block.zero_()
        events = []
        for _ in range(count):
            start, end = self._event(), self._event()
            start.record()
            work()
            end.record()
            events.append((start, end))
        self.torch.cuda.synchronize()
        return [start.elapsed_time(end) * 1e3 for start, end in events]


def reference_td_errors(layers, target_layers, batch):
    """y - Q(s, a) in f64. Layers are pairs of weights [in, out] and biases, in the order of the reference network."""
    import numpy

    def q_values(layers, states):
        relu = lambda x: numpy.maximum(x, 0.0)
        linear = lambda at, x: x @ layers[at][0] + layers[at][1]
        trunk = relu(linear(1, relu(linear(0, states))))
        value, advantage = linear(3, relu(linear(2, trunk))), linear(5, relu(linear(4, trunk)))
        return value + advantage - advantage.mean(axis=1, keepdims=True)

    wide = lambda values: numpy.asarray(values, dtype=numpy.float64)
    layers, target_layers = ([(wide(w), wide(b)) for w, b in each] for each in (layers, target_layers))
    rows = numpy.arange(len(batch["rewards"]))
    following = wide(batch["next_states"])
    best = q_values(layers, following).argmax(axis=1)
    bootstrap = q_values(target_layers, following)[rows, best]
    targets = wide(batch["rewards"]) + GAMMA * (1.0 - wide(batch["dones"])) * bootstrap
    return targets - q_values(layers, wide(batch["states"]))[rows, numpy.asarray(batch["actions"])]


def check_td_errors(label, precision, got, expected):
    """Prints how far they are off; ends the script with a failure where that is too far."""
    import numpy

    error = numpy.linalg.norm(numpy.asarray(got, dtype=numpy.float64) - expected) / numpy.linalg.norm(expected)
    if not error <= TOLERANCE[precision]:
        sys.exit(f"error: {label}: TD errors are off by {error:.1e}, {TOLERANCE[precision]:.0e} is allowed")
    print(f"{label}: TD errors within {error:.1e} of f64")
