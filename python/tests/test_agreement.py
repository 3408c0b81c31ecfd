"""Other samplers on the weighted rows find the same posterior."""

import arviz
import guide
import numpy as np
import pytest


def on_own_scale(core, theta):
    """Coefficients of standardised columns (chains, draws, coefficients) on the data's own scale."""
    beta = theta[..., 1:] / core.scale
    return np.concatenate([theta[..., :1] - (beta * core.center).sum(axis=-1, keepdims=True), beta], axis=-1)


def agree(ours, beta):
    for i, name in enumerate(ours.coefficients):
        mine, theirs = ours.draws[:, :, i], beta[:, :, i]
        # Four combined Monte Carlo errors: of 22 comparisons a correct program would fail once in 700 seeds.
        error = np.hypot(arviz.mcse(mine, method="mean"), arviz.mcse(theirs, method="mean"))
        assert abs(mine.mean() - theirs.mean()) < 4 * error, name
        error = np.hypot(arviz.mcse(mine, method="sd"), arviz.mcse(theirs, method="sd"))
        assert abs(mine.std(ddof=1) - theirs.std(ddof=1)) < 4 * error, name


@pytest.fixture(scope="module")
def ours(core):
    return core.fit(draws=4000, seed=11)


@pytest.mark.parametrize("tool", ["PyMC", "NumPyro"])
def test_the_guides_model_agrees(tool, core, ours):
    names = {"core": core}
    exec(guide.block(f"With {tool}"), names)
    agree(ours, on_own_scale(core, names["theta"]))
