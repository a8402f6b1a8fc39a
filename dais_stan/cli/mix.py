"""dais-stan mix: an infinite stochastic mixture, between sampling and variational inference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from .common import Data, EngineName, Json, Model, Quiet, Seed, log_steps, out, print_json, report, writable

if TYPE_CHECKING:
    from infmix import LambdaPath, Mixture


def mix(
    model: Model,
    data: Data = None,
    lam: Annotated[
        str | None,
        typer.Option(help="lambda: 1 is sampling, large is VI; 2 by default; or auto, with --budget."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=1, help="T, components that will be used (auto, --path).")
    ] = None,
    path: Annotated[
        bool, typer.Option("--path", help="Sample the whole grid of lambdas and print each one's error.")
    ] = False,
    components: Annotated[str, typer.Option(help="meanfield, isotropic or fullrank.")] = "meanfield",
    nodes: Annotated[int | None, typer.Option(help="Points of each expectation, even, at least 2 D.")] = None,
    fresh_nodes: Annotated[
        bool, typer.Option("--fresh-nodes", help="Draw plain nodes anew for each transition.")
    ] = False,
    seed: Seed = None,
    out_file: Annotated[
        Path | None,
        typer.Option("--out", metavar="MIX.nc", help="Where to save it; with --path, a file a lambda."),
    ] = None,
    chains: Annotated[int, typer.Option(min=1)] = 4,
    iter_warmup: Annotated[int, typer.Option(min=0)] = 1000,
    iter_sampling: Annotated[int, typer.Option(min=1)] = 1000,
    adapt_delta: Annotated[float, typer.Option(min=0, max=1)] = 0.9,
    engine: EngineName = "auto",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Sample the components of an infinite mixture with NUTS: a posterior between sampling and VI."""
    import infmix
    from infmix.sampling import find_kind

    from ..target import Target

    chosen = _lambda(lam, budget, path)
    find_kind(components).check_lambda(chosen or 1.0, dim=0)  # before the program is compiled
    log_steps(quiet)
    writable(out_file, model, data)
    target = Target.from_stan(model, data=data, engine=engine)
    options: dict[str, Any] = {
        "components": components,
        "nodes": nodes,
        "fresh_nodes": fresh_nodes,
        "seed": seed,
        "chains": chains,
        "iter_warmup": iter_warmup,
        "iter_sampling": iter_sampling,
        "adapt_delta": adapt_delta,
    }
    if path or chosen is None:
        grid = infmix.lambda_path(target, **options)
        if path:
            _report_path(grid, budget or _DEFAULT_BUDGET, out_file, quiet, as_json)
            return
        mixture = grid.choose(budget or _DEFAULT_BUDGET).mixture
    else:
        mixture = infmix.sample(target, chosen, **options)
    groups = mixture.save(out_file) if out_file else mixture.groups()
    report(mixture.attributes(), groups["posterior"], "all", out_file, quiet, as_json)


#: lambda where --lam is not given.
_DEFAULT_LAMBDA = 2.0
#: T where --path is given without a budget.
_DEFAULT_BUDGET = 10


def _lambda(text: str | None, budget: int | None, path: bool) -> float | None:
    """The number that --lam gives; None for auto, and for a path."""
    if path and text not in (None, "auto"):
        raise ValueError(f"--path samples its own grid of lambdas and takes no --lam, found {text!r}")
    if path or text == "auto":
        if budget is None and not path:
            raise ValueError("--lam auto needs --budget T, the number of components that will be used")
        return None
    if budget is not None:
        raise ValueError("--budget is for --lam auto or --path, which choose lambda by it")
    try:
        return _DEFAULT_LAMBDA if text is None else float(text)
    except ValueError:
        raise ValueError(f"--lam must be a number of at least 1 or auto, found {text!r}") from None


def _report_path(grid: LambdaPath, budget: int, out_file: Path | None, quiet: bool, as_json: bool) -> None:
    """A row for each lambda: its error with a budget of T components, and how NUTS did."""
    errors = grid.kl_errors(budget)
    best = grid.least(errors).lam
    rows = [
        {
            "lambda": mixture.lam,
            "kl_error": entry.error,
            "kl_error_se": entry.se,
            "kl_bias_lower": entry.bias_lower,
            "kl_bias_upper": entry.bias_upper,
            "gradients": mixture.gradient_evaluations,
            "verdict": mixture.verdict(),
            "out": _saved(mixture, out_file),
        }
        for entry, mixture in zip(errors, grid.mixtures, strict=True)
    ]
    if as_json:
        print_json({"budget": budget, "best": best, "path": rows})
        return
    if quiet:
        return
    table = Table(
        "lambda", "KL error", "se", "bias above", "bias below", "gradients", box=None, header_style="bold"
    )
    for row in rows:
        figures = [row[name] for name in ("kl_error", "kl_error_se", "kl_bias_lower", "kl_bias_upper")]
        table.add_row(f"{row['lambda']:g}", *(f"{x:.4g}" for x in figures), f"{row['gradients']:,}")
    out.print(table)
    out.print(
        f"Least expected divergence with {budget} components, up to the log evidence: lambda {best:g}",
        style="bold",
        highlight=False,
    )


def _saved(mixture: Mixture, out_file: Path | None) -> str | None:
    """Where this lambda's mixture has been written: --out with the lambda in its name."""
    if out_file is None:
        return None
    file = out_file.with_name(f"{out_file.stem}-{mixture.lam:g}{out_file.suffix}")
    mixture.save(file)
    return str(file)
