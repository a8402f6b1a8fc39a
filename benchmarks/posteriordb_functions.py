"""Between sampling and VI on posteriors of posteriordb: Lange et al. (2022), figure B.1.

As ``interpolation.py``, on the unconstrained space of three posteriors. The truth is the mean of f over
10,000 draws of NUTS, and NUTS's estimates are from 10,000 others. The data of arK and gp_pois_regr come from
a clone of posteriordb, or an extract of it.

    python benchmarks/posteriordb_functions.py --posteriordb FOLDER [--quick | --full] [--workers 2]
"""

from __future__ import annotations

from interpolation import study
from study import arguments

POSTERIORS = ("arK-arK", "eight_schools-eight_schools_noncentered", "gp_pois_regr-gp_pois_regr")


def main() -> None:
    """The three posteriors."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--posteriordb", help="folder of the data; else POSTERIOR_DB_PATH names it")
    options = parser.parse_args()
    study("posteriordb_functions", "Random functions of posteriors", POSTERIORS, options, options.posteriordb)


if __name__ == "__main__":
    main()
