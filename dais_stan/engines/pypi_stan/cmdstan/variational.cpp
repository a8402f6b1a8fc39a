// Automatic differentiation variational inference with a Gaussian of diagonal or full covariance.

#include "run.hpp"

#include <stan/services/experimental/advi/fullrank.hpp>
#include <stan/services/experimental/advi/meanfield.hpp>

namespace dais {

int variational(Run& run) {
  const Argument& options = run.options;
  const Inits inits = run.inits(1);
  CsvWriter draws = run.output.csv(run.id, false);
  CsvWriter trace = run.output.diagnostic(run.id, false);
  const auto run_family = [&](auto family) {
    return family(run.model, *inits.contexts[0], run.seed, run.id, inits.radius, options["grad_samples"].integer(),
                  options["elbo_samples"].integer(), options["iter"].integer(), options["tol_rel_obj"].real(),
                  options["eta"].real(), options["adapt"]["engaged"].flag(), options["adapt"]["iter"].integer(),
                  options["eval_elbo"].integer(), options["output_samples"].integer(), run.interrupt, run.logger,
                  run.init_writer, draws, trace);
  };
  namespace advi = stan::services::experimental::advi;
  if (options["algorithm"].value == "fullrank")
    return run_family([](auto&&... arguments) { return advi::fullrank(arguments...); });
  return run_family([](auto&&... arguments) { return advi::meanfield(arguments...); });
}

}  // namespace dais
