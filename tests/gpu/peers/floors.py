#!/usr/bin/env python3
"""How fast the device copies and multiplies: what the floors of the table are reckoned from."""

from common import PRECISIONS, TorchClock, at, figure, need, size

COPIES = [24_700_000, 100_000_000, 400_000_000]
PRODUCTS = [(16_384, 384, 384), (8192, 8192, 8192)]


def main():
    torch = need("torch")
    clock = TorchClock(torch)
    print(torch.__version__, torch.cuda.get_device_name())
    for count in COPIES:
        # In turn, so that the L2 cache does not hold what is read next.
        sets = [(torch.rand(count, device="cuda"), torch.empty(count, device="cuda")) for _ in range(3)]
        turn = iter(range(1 << 30))

        def copy():
            source, sink = sets[next(turn) % len(sets)]
            sink.copy_(source)

        microseconds = at(clock.pairs(copy, 60), 0.5)
        figure(f"copy {size(count)} by floor", 8.0 * count / microseconds / 1e3, "GB/s", "f32, read and written")
        del sets
    for rows, inner, columns in PRODUCTS:
        for precision in PRECISIONS:
            torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
            kind = torch.bfloat16 if precision == "bf16" else torch.float32
            # Random, as a product of zeros draws less power and runs at a higher clock.
            a, b = (torch.randn(shape, device="cuda").to(kind) for shape in ((rows, inner), (inner, columns)))
            out = torch.empty(rows, columns, device="cuda", dtype=kind)
            clock.back_to_back(lambda: torch.mm(a, b, out=out), 3)
            microseconds = at(clock.back_to_back(lambda: torch.mm(a, b, out=out), 20), 0.5)
            rate = 2.0 * rows * inner * columns / microseconds / 1e6
            figure(f"product {rows}x{inner}x{columns} {precision} by floor", rate, "TFLOP/s", "cuBLAS through torch")


if __name__ == "__main__":
    main()
