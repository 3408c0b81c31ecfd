"""Other samplers on the weighted rows find the same posterior."""

import arviz
import numpy as np
import pytest


# ArviZ's compiled way to a Monte Carlo error does not work with the NumPy of today.
arviz.Numba.disable_numba()


def on_own_scale(core, theta):
    """Coefficients of standardised columns (chains, draws, coefficients) on the data's own scale."""
    beta = theta[..., 1:] / core.scale
    return np.concatenate([theta[..., :1] - (beta * core.center).sum(axis=-1, keepdims=True), beta], axis=-1)


def agree(ours, beta):
    for i, name in enumerate(ours.coefficients):
        mine, theirs = ours.draws[:, :, i], beta[:, :, i]
        # Four combined Monte Carlo errors: of 22 comparisons a right program would fail once in 700 seeds.
        error = np.hypot(arviz.mcse(mine, method="mean"), arviz.mcse(theirs, method="mean"))
        assert abs(mine.mean() - theirs.mean()) < 4 * error, name
        error = np.hypot(arviz.mcse(mine, method="sd"), arviz.mcse(theirs, method="sd"))
        assert abs(mine.std(ddof=1) - theirs.std(ddof=1)) < 4 * error, name


@pytest.fixture(scope="module")
def ours(core):
    return core.fit(draws=4000, seed=11)


def test_pymc_with_nutpie_agrees(core, ours):
    import nutpie
    import pymc

    Z = (core.X - core.center) / core.scale
    with pymc.Model() as model:
        theta = pymc.Normal("theta", 0, 2, shape=1 + Z.shape[1])
        eta = theta[0] + Z @ theta[1:]
        loglik = core.weights * pymc.logp(pymc.Bernoulli.dist(logit_p=eta), core.y)
        pymc.Potential("weighted", loglik.sum())
    found = nutpie.sample(nutpie.compile_pymc_model(model), draws=2000, tune=500, chains=4, seed=2, progress_bar=False)
    agree(ours, on_own_scale(core, found.posterior["theta"].to_numpy()))


def test_numpyro_agrees(core, ours):
    import jax
    import numpyro
    from numpyro import distributions
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    Z = (core.X - core.center) / core.scale

    def model():
        theta = numpyro.sample("theta", distributions.Normal(0, 2).expand([1 + Z.shape[1]]).to_event(1))
        logits = theta[0] + Z @ theta[1:]
        numpyro.factor("weighted", (core.weights * distributions.Bernoulli(logits=logits).log_prob(core.y)).sum())

    mcmc = MCMC(
        NUTS(model), num_warmup=500, num_samples=2000, num_chains=4, chain_method="vectorized", progress_bar=False
    )
    mcmc.run(jax.random.key(3))
    agree(ours, on_own_scale(core, np.asarray(mcmc.get_samples(group_by_chain=True)["theta"])))
