"""Draws docs/kl-by-size.svg: KL divergence to the full-data posterior by coreset size, for the three methods.

    python3 benchmarks/kl_by_size.py target/release/tithe docs/kl-by-size.svg
"""

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = [100, 200, 500, 1000, 2000, 5000]
# The palette of Okabe and Ito, which is safe for colour-blind readers.
METHODS = [
    ("uniform", "random rows", "#D55E00"),
    ("sensitivity", "the paper's coreset", "#0072B2"),
    ("calibrated", "Tithe, calibrated", "#009E73"),
]
WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 80, 560, 30, 320
DECADES = (-10, 10)


def divergences(tithe: str) -> dict[str, list[float]]:
    """KL divergence for each method and size, for one coreset of a million rows of the paper's Mixture data."""
    found: dict[str, list[float]] = {method: [] for method, _, _ in METHODS}
    with tempfile.TemporaryDirectory() as folder:
        data, core = f"{folder}/mixture.parquet", f"{folder}/core.parquet"
        run(tithe, "generate", "mixture", "--rows", "1000000", "-o", data)
        for size in SIZES:
            for method in found:
                unscaled = ["--no-intercept", "--no-standardize"]
                run(tithe, "build", data, "--label", "y", *unscaled,
                    "--method", method, "--size", str(size), "-o", core)
                certificate = run(tithe, "certify", core, "--data", data)
                found[method].append(certificate.get("certificate", certificate)["kl"])
    return found


def run(tithe: str, *arguments: str) -> dict:
    command = [tithe, *arguments, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def x(size: float) -> float:
    share = math.log(size / SIZES[0]) / math.log(SIZES[-1] / SIZES[0])
    return LEFT + 20 + share * (RIGHT - LEFT - 40)


def y(kl: float) -> float:
    low, high = DECADES
    return BOTTOM - (math.log10(kl) - low) / (high - low) * (BOTTOM - TOP)


def drawing(found: dict[str, list[float]]) -> str:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for decade in range(DECADES[0], DECADES[1] + 1, 5):
        height = y(10.0**decade)
        parts.append(f'<line x1="{LEFT}" x2="{RIGHT}" y1="{height:.1f}" y2="{height:.1f}" stroke="#e0e0e0"/>')
        parts.append(
            f'<text x="{LEFT - 8}" y="{height + 4:.1f}" text-anchor="end" fill="#333">10'
            f'<tspan dy="-5" font-size="10">{decade}</tspan></text>'
        )
    for size in SIZES:
        parts.append(f'<text x="{x(size):.1f}" y="{BOTTOM + 20}" text-anchor="middle" fill="#333">{size:,}</text>')
    parts.append(
        f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 45}" text-anchor="middle" fill="#333">'
        "rows in the coreset, of 1,000,000</text>"
    )
    middle = (TOP + BOTTOM) / 2
    parts.append(
        f'<text x="22" y="{middle}" text-anchor="middle" fill="#333" transform="rotate(-90 22 {middle})">'
        "KL to the full posterior, at draws (nats)</text>"
    )
    labels: list[float] = []
    for method, name, colour in METHODS:
        points = [(x(size), y(kl)) for size, kl in zip(SIZES, found[method])]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{colour}"/>' for a, b in points]
        height = points[-1][1] + 4
        while any(abs(height - other) < 18 for other in labels):
            height += 18
        labels.append(height)
        parts.append(
            f'<text x="{points[-1][0] + 14:.1f}" y="{height:.1f}" fill="{colour}" font-weight="bold">{name}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(drawing(divergences(sys.argv[1])))
