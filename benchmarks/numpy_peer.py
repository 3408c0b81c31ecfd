"""Compares Tithe with the same coreset algorithm written with NumPy and scikit-learn.

python benchmarks/numpy_peer.py TITHE…   (TITHE… is a command that prints Tithe's best time in seconds)
"""

import subprocess
import sys
import time

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import euclidean_distances

ROWS, CLUSTERS, SIZE, RADIUS = 1_000_000, 4, 1000, 3.0
ROUNDS, RUNS = 4, 3


def mixture(rng):
    """The paper's Mixture data: ten normal covariates; the mean depends on the class."""
    y = np.where(rng.random(ROWS) <= 0.5, 1.0, -1.0)
    first, second = np.repeat([1.0, 0.0], 5), np.repeat([0.0, 1.0], 5)
    x = rng.standard_normal((ROWS, 10)) + np.where(y[:, None] > 0, first, second)
    return x, y


def coreset(x, y, rng, quick):
    """Algorithm 1: selected rows and their weights. If quick, k-means centres replace the leave-one-out means."""
    z = y[:, None] * x
    rows = len(z)
    chosen = rng.choice(rows, min(1000 * CLUSTERS, rows // 40), replace=False)
    centers = KMeans(CLUSTERS, n_init=1, random_state=0).fit(z[chosen]).cluster_centers_

    distances = euclidean_distances(z, centers)
    group = distances.argmin(axis=1)
    score = np.mean(distances.min(axis=1) ** 2)
    mass = np.bincount(group, minlength=CLUSTERS).astype(float)
    if not quick:
        means = np.stack([z[group == i].mean(axis=0) for i in range(CLUSTERS)])
        distances = euclidean_distances(z, means)
        # Leaving a point out of the mean increases the distance between them by this factor.
        distances[np.arange(rows), group] *= (mass / (mass - 1))[group]

    radius = RADIUS / np.sqrt(score)
    terms = np.exp(-radius * distances)
    total = terms @ mass - terms[np.arange(rows), group]
    bounds = 1 / (1 + total)
    chances = bounds / bounds.sum()
    counts = rng.multinomial(SIZE, chances)
    kept = np.flatnonzero(counts)
    return kept, counts[kept] / (SIZE * chances[kept])


def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(tithe):
    rng = np.random.default_rng(1)
    x, y = mixture(rng)
    kept, weights = coreset(x, y, rng, quick=False)
    assert abs(weights.sum() / ROWS - 1) < 0.5, "the weights should sum to about the number of rows"
    best = {"Tithe": np.inf, "exact": np.inf, "quick": np.inf}
    # Alternate, so that other load on the machine affects both sides.
    for _ in range(ROUNDS):
        printed = subprocess.run(tithe, check=True, capture_output=True, text=True).stdout
        best["Tithe"] = min(best["Tithe"], float(printed.split()[-1]))
        for _ in range(RUNS):
            for name in ("exact", "quick"):
                best[name] = min(best[name], timed(lambda: coreset(x, y, rng, quick=name == "quick")))
    print(f"In memory, Mixture {ROWS} x 10, k = {CLUSTERS}, M = {SIZE}; fastest of {ROUNDS * RUNS} runs")
    print(f"  Tithe, exact leave-one-out: {best['Tithe'] * 1e3:.2f} ms")
    for name, method in (("exact", "exact leave-one-out"), ("quick", "k-means centres instead of means")):
        ratio = best[name] / best["Tithe"]
        print(f"  NumPy and scikit-learn, {method}: {best[name] * 1e3:.0f} ms, {ratio:.1f} times as long")


if __name__ == "__main__":
    main(sys.argv[1:])
