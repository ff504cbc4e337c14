#!/usr/bin/env python3
"""Draws ours beside the peers, from the figures of a recorded run.

    chart.py [RUN.json] [OUT.svg]

Without arguments: `tests/gpu/last-run.json` into `docs/performance.svg`. Ends with 1, and writes nothing, where the run
has no such figures.
"""

import json
import math
import re
import sys
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
OURS = "foxhunt"
SLOTS, BATCH = "24.7M", "16384"
# Phase, precision and heading of each group.
GROUPS = [
    ("per_scan", None, "scan"),
    ("per_sample", None, "sample, gather, weights"),
    ("per_update", None, "update of priorities"),
    ("per", None, "all three in one graph"),
    ("learn", "bf16", "learn, bf16"),
    ("learn", "tf32", "learn, tf32"),
    ("learn", "fp32", "learn, fp32"),
    ("step", "bf16", "whole step, bf16"),
    ("step", "tf32", "whole step, tf32"),
    ("step", "fp32", "whole step, fp32"),
]
MICROSECONDS = {"us": 1.0, "ms": 1e3, "s": 1e6}
NAME = re.compile(
    r"(?P<phase>\w+)(?: (?P<slots>[\d.]+M?))?(?: x (?P<batch>\d+))?(?: (?P<precision>bf16|tf32|fp32))? by (?P<who>.+)"
)

WIDTH, LEFT, RIGHT = 860, 300, 120
BAR, GAP, HEADING = 15, 4, 24
COLOURS = {"ours": "#c8501e", "theirs": "#8a97a6", "grid": "#d9dee3", "text": "#24292f"}


def times(run):
    """(phase, precision) to who to microseconds, at the reference sizes. What leaves a size out stands for all."""
    found = {}
    for program in run.get("bench", []):
        for figure in program.get("figures", []):
            name = NAME.fullmatch(figure["name"])
            if name is None or figure["unit"] not in MICROSECONDS:
                continue
            if name["slots"] in (None, SLOTS) and name["batch"] in (None, BATCH):
                group = found.setdefault((name["phase"], name["precision"]), {})
                group[name["who"]] = figure["value"] * MICROSECONDS[figure["unit"]]
    return found


def chart(run):
    """The picture; None where there is nothing of ours to draw."""
    found = times(run)
    groups = []
    for phase, precision, heading in GROUPS:
        bars = found.get((phase, precision), {})
        if OURS in bars:
            others = sorted((time, who) for who, time in bars.items() if who != OURS)
            groups.append((heading, [(bars[OURS], OURS)] + others))
    if not groups:
        return None
    longest = max(time for _, bars in groups for time, _ in bars)
    decades = max(1, math.ceil(math.log10(longest)))
    scale = lambda time: LEFT + (WIDTH - LEFT - RIGHT) * max(math.log10(max(time, 1.0)), 0.0) / decades
    parts, y = [], 62
    for heading, bars in groups:
        parts.append(text(16, y + 12, heading, weight="bold"))
        y += HEADING
        for time, who in bars:
            colour = COLOURS["ours" if who == OURS else "theirs"]
            width = max(scale(time) - LEFT, 1.0)
            factor = "" if who == OURS else f" ({time / bars[0][0]:.1f}×)"
            parts.append(text(LEFT - 8, y + 12, who, anchor="end"))
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>')
            parts.append(text(LEFT + width + 6, y + 12, f"{label(time)}{factor}"))
            y += BAR + GAP
        y += GAP
    axis = []
    for decade in range(decades + 1):
        x = scale(10.0**decade)
        axis.append(f'<line x1="{x:.1f}" y1="58" x2="{x:.1f}" y2="{y}" stroke="{COLOURS["grid"]}"/>')
        axis.append(text(x, y + 16, label(10.0**decade), anchor="middle"))
    device, date = run["device"]["name"], run["date"][:10]
    title = f"{SLOTS} slots, batch {int(BATCH):,}, {device}, {date}"
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 28}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{y + 28}" fill="#ffffff"/>',
        text(16, 26, "Time of a phase, and of others for the same work", size=16, weight="bold"),
        text(16, 45, f"{title}; logarithmic, shorter is better"),
    ]
    return "\n".join(head + axis + parts + ["</svg>"]) + "\n"


def label(time):
    if time >= 1e4:
        return f"{time / 1e3:.0f} ms"
    return f"{time:.0f} µs" if time >= 100.0 or time == int(time) else f"{time:.1f} µs"


def text(x, y, content, anchor="start", size=12, weight="normal"):
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{COLOURS["text"]}"'
    return f'<text x="{x:.1f}" y="{y}" {style}>{escape(content)}</text>'


def main():
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "last-run.json"
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else HERE.parent.parent / "docs" / "performance.svg"
    picture = chart(json.loads(source.read_text(encoding="utf-8")))
    if picture is None:
        sys.exit(f"error: `{source}` has no figures of the form `PHASE {SLOTS} x {BATCH} by {OURS}`; nothing was drawn")
    out.write_text(picture, encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
