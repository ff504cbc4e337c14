"""Prioritized replay on the GPU as one writes it with torch: what `GpuReplayBuffer` does, with torch's own operations.

* scan: inclusive sums of all priorities (ours: of the touched tiles);
* sample: one stratified draw a row by binary search, its importance weight, and the row gathered: both states, action,
  reward, done;
* update: (|td| + eps)^alpha to the drawn slots. A slot that is named twice keeps either priority (ours: the largest).
"""

from common import ALPHA, BETA, EPS, STATE_DIM


class TorchReplay:
    def __init__(self, torch, slots, sums):
        self.torch, self.slots = torch, slots
        make = lambda *shape, kind=torch.float32: torch.zeros(*shape, dtype=kind, device="cuda")
        self.priorities = torch.rand(slots, device="cuda") + 1e-3
        self.ends = make(slots, kind=sums)
        self.states, self.next_states = make(slots, STATE_DIM), make(slots, STATE_DIM)
        self.actions, self.rewards, self.dones = make(slots, kind=torch.int64), make(slots), make(slots)

    @staticmethod
    def bytes_needed(slots):
        """With some room for batches and for what torch allocates in between."""
        return slots * (2 * STATE_DIM * 4 + 4 + 8 + 8 + 4 + 4 + 16) + (1 << 31)

    def scan(self):
        self.torch.cumsum(self.priorities, 0, dtype=self.ends.dtype, out=self.ends)

    def sample(self, rows):
        torch, total = self.torch, self.ends[-1]
        strata = torch.arange(rows, device="cuda", dtype=self.ends.dtype)
        self.targets = (strata + torch.rand(rows, device="cuda", dtype=self.ends.dtype)) * (total / rows)
        slots = torch.searchsorted(self.ends, self.targets, right=True).clamp_(max=self.slots - 1)
        weights = (self.slots * self.priorities[slots] / total.float()).pow(-BETA)
        weights /= weights.max()
        batch = {
            "states": self.states[slots],
            "next_states": self.next_states[slots],
            "actions": self.actions[slots],
            "rewards": self.rewards[slots],
            "dones": self.dones[slots],
        }
        return slots, weights, batch

    def update(self, slots, td_errors):
        self.priorities[slots] = (td_errors.abs() + EPS).pow(ALPHA)
