"""Bus bandwidth over the size of the buffer, ours as lines and nccl-tests' as circles, as SVG. Pure."""

from __future__ import annotations

import math

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
LEFT, TOP, WIDE, TALL = 60, 20, 520, 340
STEP_GB_S = 50


def plot(rows, launch="queued"):
    """``rows`` as collectives_beside.rows makes them; theirs is the time of the same bytes, launched by the host."""
    names = sorted({row["collective"] for row in rows if row["launch"] == launch})
    rows = [row for row in rows if row["launch"] == launch]
    low, high = (math.log2(pick(row["bytes"] for row in rows)) for pick in (min, max))
    top = STEP_GB_S * math.ceil(max(row["bus_bandwidth_gb_s"] for row in rows) / STEP_GB_S)

    def at(size, rate):
        return LEFT + (math.log2(size) - low) / (high - low) * WIDE, TOP + TALL * (1 - rate / top)

    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 420" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="#fff"/>']  # fmt: skip
    for rate in range(0, top + 1, STEP_GB_S):
        _, y = at(2**low, rate)
        out.append(f'<line x1="{LEFT}" x2="{LEFT + WIDE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{rate}</text>')
    for power in range(math.ceil(low), math.floor(high) + 1, 3):
        x, _ = at(2**power, 0)
        out.append(f'<text x="{x:.1f}" y="{TOP + TALL + 18}" text-anchor="middle">{size_of(2**power)}</text>')
    for name, colour in zip(names, COLOURS, strict=False):
        found = sorted((row["bytes"], row["bus_bandwidth_gb_s"], row["nccl_us"] / row["latency_us"]) for row in rows
                       if row["collective"] == name)  # fmt: skip
        line = " ".join("{:.1f},{:.1f}".format(*at(size, rate)) for size, rate, _ in found)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for size, rate, ratio in found:
            if math.isfinite(ratio):
                x, y = at(size, rate / ratio)
                out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="none" stroke="{colour}"/>')
        y = TOP + 16 + 18 * names.index(name)
        out.append(f'<text x="{LEFT + WIDE + 12}" y="{y}" fill="{colour}">{name}</text>')
    out.append(f'<text x="{LEFT}" y="{TOP - 6}">bus bandwidth, GB/s: lines ours, circles nccl-tests</text></svg>')
    return "".join(out)


def size_of(size):
    """In words: 8 KiB, 1 GiB."""
    for unit, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << unit:
            return f"{size >> unit} {name}"
    return f"{size} B"
