"""Between sampling and VI on posteriors of posteriordb: Lange et al. (2022), figure B.1.

As ``interpolation.py``, on the unconstrained space of three posteriors. The truth is the mean of f over
draws of NUTS (10,000 with --full), and NUTS's estimates are from as many others.

    python benchmarks/posteriordb_functions.py [--quick | --full] [--workers 2]
"""

from __future__ import annotations

from interpolation import study
from mixtures import lambdas
from study import arguments

POSTERIORS = ("eight_schools-eight_schools_noncentered", "arK-arK", "gp_pois_regr-gp_pois_regr")


def main() -> None:
    """The three posteriors."""
    options = arguments(__doc__ or "").parse_args()
    # half of the default number where quick: gradients of psi are most of the time
    nodes = None if options.full else 32
    lams = (*lambdas(options), 31.6)  # beyond the published grid: VI in all but name
    study("posteriordb_functions", "Random functions of posteriors", POSTERIORS, lams, options, nodes)


if __name__ == "__main__":
    main()
