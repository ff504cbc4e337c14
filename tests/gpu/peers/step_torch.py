#!/usr/bin/env python3
"""The learning step with torch, in one CUDA graph: plain and by `torch.compile`.

`learn` is what ours does behind the draw: forward passes of online and target network, double DQN, Huber loss with
importance weights, backward pass, clip by the global norm, Adam, Polyak target. `step` has the draw in front and the
update of priorities behind, by `torch_replay.py`, in the same graph.
"""

import copy
import os
import time

from common import (ACTIONS, BATCHES, CLIP, GAMMA, HEAD, HIDDEN, LEARNING_RATE, PRECISIONS, STATE_DIM, TAU, TorchClock,
                    at, check_td_errors, figure, figures, need, one_line, reference_td_errors, size)
from torch_replay import TorchReplay

SLOTS = 24_700_000
# Compilation is slow: none is begun after so many seconds.
COMPILE_UNTIL_S = float(os.environ.get("FOXHUNT_COMPILE_UNTIL_S", "90"))
CHECKED = 128


def network(torch):
    nn = torch.nn

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            sizes = [(STATE_DIM, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, HEAD), (HEAD, 1), (HIDDEN, HEAD), (HEAD, ACTIONS)]
            self.layers = nn.ModuleList(nn.Linear(*pair) for pair in sizes)

        def forward(self, x):
            layer, relu = self.layers, nn.functional.relu
            trunk = relu(layer[1](relu(layer[0](x))))
            value, advantage = layer[3](relu(layer[2](trunk))), layer[5](relu(layer[4](trunk)))
            return value + advantage - advantage.mean(1, keepdim=True)

    return Network().cuda()


class Learner:
    def __init__(self, torch, precision, compiled):
        self.torch, self.precision = torch, precision
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        self.online = network(torch)
        self.target = copy.deepcopy(self.online)
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=LEARNING_RATE, fused=True, capturable=True)
        self.q_online, self.q_target = self.online, self.target
        if compiled:
            mode = "max-autotune-no-cudagraphs"
            self.q_online, self.q_target = (torch.compile(net, mode=mode) for net in (self.online, self.target))

    def td_errors(self, batch):
        torch = self.torch
        # Two contexts: autocast keeps a weight that it has cast, and one cast without gradients would serve for both.
        autocast = lambda: torch.autocast("cuda", torch.bfloat16, enabled=self.precision == "bf16")
        with autocast(), torch.no_grad():
            best = self.q_online(batch["next_states"]).argmax(1, keepdim=True)
            bootstrap = self.q_target(batch["next_states"]).gather(1, best)[:, 0].float()
            targets = batch["rewards"] + GAMMA * (1.0 - batch["dones"]) * bootstrap
        with autocast():
            q = self.q_online(batch["states"]).gather(1, batch["actions"][:, None])[:, 0].float()
        return targets, q

    def learn(self, batch, weights):
        torch = self.torch
        self.optimizer.zero_grad(set_to_none=False)
        targets, q = self.td_errors(batch)
        loss = (weights * torch.nn.functional.smooth_l1_loss(q, targets, reduction="none")).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.online.parameters(), CLIP, foreach=True)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.target.parameters()), list(self.online.parameters()), TAU)
            return targets - q

    def check(self, batch, label):
        host = lambda values: values.detach()[:CHECKED].cpu().numpy()
        layers = lambda net: [(l.weight.detach().t().cpu().numpy(), l.bias.detach().cpu().numpy()) for l in net.layers]
        rows = {name: host(values) for name, values in batch.items()}
        expected = reference_td_errors(layers(self.online), layers(self.target), rows)
        targets, q = self.td_errors(batch)
        check_td_errors(label, self.precision, host(targets - q), expected)


def random_batch(torch, rows):
    normal = lambda *shape: torch.randn(*shape, device="cuda")
    return {
        "states": normal(rows, STATE_DIM),
        "next_states": normal(rows, STATE_DIM),
        "actions": torch.randint(0, ACTIONS, (rows,), device="cuda"),
        "rewards": normal(rows),
        "dones": (torch.rand(rows, device="cuda") < 0.05).float(),
    }


def measure(torch, clock, memory, precision, rows, compiled):
    who = "torch compiled" if compiled else "torch"
    learner = Learner(torch, precision, compiled)
    batch, weights = random_batch(torch, rows), torch.rand(rows, device="cuda")
    learner.check(batch, f"{who}, {precision}, {rows} rows")
    name = f"x {rows} {precision}"
    replay = clock.graph(lambda: learner.learn(batch, weights))
    if not all(parameter.grad.abs().sum().item() > 0.0 for parameter in learner.online.parameters()):
        raise RuntimeError("a layer got no gradient")
    figures(f"learn {name}", who, clock.pairs(replay, 100), "one graph, pair minus empty pair")
    if memory is None:
        return

    def whole():
        memory.scan()
        slots, drawn_weights, drawn = memory.sample(rows)
        memory.update(slots, learner.learn(drawn, drawn_weights))

    replay = clock.graph(whole)
    mean = at(clock.back_to_back(replay, 50), 0.5)
    figure(f"step {size(SLOTS)} {name} by {who}", mean, "us", "one graph, back to back")


def main():
    began = time.monotonic()
    torch = need("torch")
    torch.manual_seed(0)
    print(torch.__version__, torch.cuda.get_device_name())
    clock = TorchClock(torch)
    memory = None
    if torch.cuda.mem_get_info()[0] > TorchReplay.bytes_needed(SLOTS):
        memory = TorchReplay(torch, SLOTS, torch.float32)
        for states in (memory.states, memory.next_states):
            states.normal_()
        memory.actions.random_(0, ACTIONS)
        memory.rewards.normal_()
    else:
        print(f"skipped: the step with {SLOTS} slots: too little memory")
    plain = [(precision, rows, False) for rows in BATCHES for precision in PRECISIONS]
    compiled = [(precision, rows, True) for rows in BATCHES for precision in PRECISIONS]
    for precision, rows, is_compiled in plain + compiled:
        label = f"{precision}, {rows} rows, {'compiled' if is_compiled else 'plain'}"
        if is_compiled and time.monotonic() - began > COMPILE_UNTIL_S:
            print(f"skipped: {label}: no time is left to compile it")
            continue
        try:
            if is_compiled:
                # What was compiled for another precision would be taken for this one.
                torch._dynamo.reset()
            measure(torch, clock, memory, precision, rows, is_compiled)
        except Exception as error:  # Of any kind: the other variants are still to be had.
            print(f"skipped: {label}: {one_line(error)}")


if __name__ == "__main__":
    main()
