"""Draws docs/assets/rows.svg: rows, the coreset, and the posteriors of both. Needs the package and Matplotlib.

python website/pictures.py
"""

import pathlib

import matplotlib.pyplot as plt
import numpy as np

import tithe

TARGET = pathlib.Path(__file__).resolve().parents[1] / "docs/assets/rows.svg"
ROWS, SIZE = 20_000, 40
GREY, BLUE, ORANGE, GREEN = "#9e9e9e", "#0072b2", "#d55e00", "#009e73"


def data() -> tuple[np.ndarray, np.ndarray]:
    """Two features and a label."""
    generator = np.random.default_rng(1)
    X = generator.normal(size=(ROWS, 2)) @ np.array([[1.0, 0.5], [0.0, 0.8]])
    y = generator.random(ROWS) < 1 / (1 + np.exp(1 - X @ np.array([1.2, -0.8])))
    return X, y


def log_posterior(X: np.ndarray, y: np.ndarray, weights: np.ndarray, grid: list[np.ndarray]) -> np.ndarray:
    """The log density of two coefficients without an intercept, on a grid, up to a constant."""
    signed = np.where(y, 1, -1)[:, None] * X
    values = np.empty(grid[0].shape)
    for index in np.ndindex(values.shape):
        theta = np.array([grid[0][index], grid[1][index]])
        values[index] = -(weights * np.logaddexp(0, -signed @ theta)).sum() - (theta**2).sum() / 8
    return values - values.max()


def main() -> None:
    """Draw the picture."""
    X, y = data()
    settings = {"intercept": False, "standardize": False, "progress": False, "seed": 3}
    core = tithe.build(X, y, size=SIZE, **settings)
    random = tithe.build(X, y, size=SIZE, method="uniform", **settings)
    mean, sd = core.fit(progress=False).mean, core.fit(progress=False).sd
    axes_of_grid = [np.linspace(mean[i] - 4 * sd[i], mean[i] + 4 * sd[i], 60) for i in range(2)]
    wide = [np.linspace(mean[i] - 9 * sd[i], mean[i] + 9 * sd[i], 90) for i in range(2)]

    plt.rcParams.update({"font.family": "sans-serif", "font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "tithe"})
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(9.2, 3.1), layout="constrained")
    shown = slice(0, 3000)
    left.scatter(*X[shown].T, s=3, c=np.where(y[shown], ORANGE, BLUE), alpha=0.35, linewidths=0, rasterized=True)
    left.set_title(f"{ROWS:,} rows")
    colours = np.where(core.y == 1, ORANGE, BLUE)
    middle.scatter(*core.X.T, s=core.weights / core.weights.max() * 320, c=colours, alpha=0.6, linewidths=0)
    middle.set_title(f"{len(core)} weighted rows")
    for panel in (left, middle):
        panel.set(xlim=(-4, 4), ylim=(-4, 4), xlabel="x1", ylabel="x2")

    levels = [-3.0, -0.5]
    grid = np.meshgrid(*wide, indexing="ij")
    right.contour(
        *grid, log_posterior(random.X, random.y, random.weights, grid), levels, colors=GREY, linestyles="dashed"
    )
    grid = np.meshgrid(*axes_of_grid, indexing="ij")
    right.contourf(*grid, log_posterior(X, y == 1, np.ones(ROWS), grid), [*levels, 0], colors=["#c8e6c9", "#66bb6a"])
    right.contour(
        *grid,
        log_posterior(core.X, core.y, core.weights, grid),
        levels,
        colors="black",
        linewidths=1,
        linestyles="solid",
    )
    right.set(title="posterior", xlabel="coefficient of x1", ylabel="coefficient of x2")
    right.plot([], [], color="#66bb6a", linewidth=6, label="all rows")
    right.plot([], [], color="black", label="coreset")
    right.plot([], [], color=GREY, linestyle="dashed", label="random rows")
    right.legend(frameon=False, loc="lower right", fontsize=8)
    right.set(xlim=wide[0][[0, -1]], ylim=wide[1][[0, -1]])
    for panel in (left, middle, right):
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(TARGET, metadata={"Date": None})


if __name__ == "__main__":
    main()
