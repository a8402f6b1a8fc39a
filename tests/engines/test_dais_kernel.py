"""The native kernel against the NumPy one, and against itself on several threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dais_stan.engines.dais import NativeKernel, NumpyKernel, annealed_draws, annealing_kernel
from dais_stan.families import FullRank, MeanField
from dais_stan.objectives.annealing import AnnealingParameters
from dais_stan.objectives.dais import noise_shape
from dais_stan.resources import stan_models
from dais_stan.target import Target
from dais_stan.whitening import WhitenedTarget, Whitening

PROGRAM = Path(__file__).parents[1] / "stan" / "skewed_correlated.stan"
DATA = {"shape": 2.5, "rate": 1.5}


# Second derivatives take the compiler a minute and a half.
@pytest.fixture(
    scope="module", params=[pytest.param("exact products", marks=pytest.mark.slow), "difference products"]
)
def target(request):
    return Target.from_stan(PROGRAM, data=DATA, autodiff_hessian=request.param == "exact products")


def whitened(target, dense):
    factor = np.array([[0.7, 0.0, 0.0], [0.3, 1.2, 0.0], [-0.2, 0.4, 0.5]])
    return WhitenedTarget(
        target, Whitening(np.array([0.2, -0.1, 0.3]), factor if dense else factor.diagonal())
    )


def a_path(family, transitions=5, step=0.25):
    parameters = AnnealingParameters(family, transitions)
    rng = np.random.default_rng(3)
    params = parameters.initial(step=step, retention=0.6) + 0.2 * rng.standard_normal(parameters.n_params)
    return parameters.unpack(params)


def some_noise(transitions, particles, dim, seed=1):
    return np.random.default_rng(seed).standard_normal(noise_shape(transitions, particles, dim))


def assert_equal(native, numpy, tolerance):
    assert native.bound == pytest.approx(numpy.bound, rel=1e-12)
    assert native.rejected == numpy.rejected
    for name, a, b in zip(native.gradient._fields, native.gradient, numpy.gradient, strict=True):
        if name == "factor" and np.ndim(a) == 2:
            a, b = np.tril(a), np.tril(b)  # the kernel leaves out what no family uses
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max(), err_msg=name)


@pytest.mark.parametrize("family", [MeanField, FullRank])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("transitions", [1, 5])
def test_native_and_numpy_kernels_agree(target, family, dense, transitions):
    """To rounding with exact products; differences of gradients enlarge the rounding to their own error."""
    density = whitened(target, dense)
    path, noise = a_path(family(3), transitions), some_noise(transitions, 8, 3)
    kernel = annealing_kernel(density)
    assert isinstance(kernel, NativeKernel)
    native, numpy = (k.bound_gradient(path, noise, 2) for k in (kernel, NumpyKernel(density)))
    assert_equal(native, numpy, 1e-12 if target.has_hvp else 2e-7)
    for a, b in zip(kernel.draws(path, noise), NumpyKernel(density).draws(path, noise), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


def test_both_kernels_count_the_same_evaluations(target):
    density, path, noise = whitened(target, False), a_path(MeanField(3)), some_noise(5, 4, 3)
    spent = []
    for kernel in (annealing_kernel(density), NumpyKernel(density)):
        before = (target.counts.gradient, target.counts.hvp)
        kernel.bound_gradient(path, noise, 1)
        spent.append((target.counts.gradient - before[0], target.counts.hvp - before[1]))
    assert spent[0] == spent[1] == (4 * 6 + (0 if target.has_hvp else 4 * 5), 4 * 5)


@pytest.mark.parametrize("dense", [False, True])
def test_the_number_of_threads_changes_nothing(dense):
    program, data = (stan_models() / f"eight_schools_noncentered{end}" for end in (".stan", ".data.json"))
    family = FullRank(10) if dense else MeanField(10)
    path, noise = a_path(family, 16), some_noise(16, 16, 10)
    results = []
    for threads in (1, 2):
        target = Target.from_stan(program, data=data, threads=threads)
        density = WhitenedTarget(target, Whitening.identity(10))
        results += [annealing_kernel(density).bound_gradient(path, noise, 1) for _ in range(5)]
    for other in results[1:]:
        assert other.bound == results[0].bound
        for a, b in zip(other.gradient, results[0].gradient, strict=True):
            np.testing.assert_array_equal(a, b)


def test_rejected_evaluations_follow_the_policy(target):
    """A step so large that trajectories overflow: the same particles lose their weight in both kernels."""
    density, noise = whitened(target, False), some_noise(6, 12, 3)
    noise[0, 3] = 60.0
    path = a_path(MeanField(3), 6, step=0.9)
    native, numpy = (
        k.bound_gradient(path, noise, 1) for k in (annealing_kernel(density), NumpyKernel(density))
    )
    assert 0 < native.rejected < 12
    assert_equal(native, numpy, 1e-9 if target.has_hvp else 1e-5)


def test_a_target_of_functions_has_the_numpy_kernel():
    target = Target.from_functions(lambda z: (-0.5 * (z**2).sum(axis=1), -z), 2)
    density = WhitenedTarget(target, Whitening.identity(2))
    assert isinstance(annealing_kernel(density), NumpyKernel)
    rng = np.random.default_rng(1)
    draws = annealed_draws(density, a_path(MeanField(2)), 50, rng)
    assert draws.z.shape == (50, 2) and draws.log_weight.shape == (50,)
