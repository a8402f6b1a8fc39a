// The posterior mode: L-BFGS, BFGS or Newton, with or without the log Jacobian of the transforms.

#include "run.hpp"

#include <stan/services/optimize/bfgs.hpp>
#include <stan/services/optimize/lbfgs.hpp>
#include <stan/services/optimize/newton.hpp>

namespace dais {
namespace {

namespace services = stan::services::optimize;

template <bool jacobian>
int optimize_with(Run& run) {
  using Model = stan::model::model_base;
  const Argument& algorithm = run.options["algorithm"].chosen();
  const int iterations = run.options["iter"].integer();
  const bool save_iterations = run.options["save_iterations"].flag();
  const Inits inits = run.inits(1);
  CsvWriter draws = run.output.csv(run.id, false);
  if (algorithm.name == "newton")
    return services::newton<Model, jacobian>(run.model, *inits.contexts[0], run.seed, run.id, inits.radius, iterations,
                                             save_iterations, run.interrupt, run.logger, run.init_writer, draws);
  const double init_alpha = algorithm["init_alpha"].real(), tol_obj = algorithm["tol_obj"].real();
  const double tol_rel_obj = algorithm["tol_rel_obj"].real(), tol_grad = algorithm["tol_grad"].real();
  const double tol_rel_grad = algorithm["tol_rel_grad"].real(), tol_param = algorithm["tol_param"].real();
  if (algorithm.name == "bfgs")
    return services::bfgs<Model, jacobian>(run.model, *inits.contexts[0], run.seed, run.id, inits.radius, init_alpha,
                                           tol_obj, tol_rel_obj, tol_grad, tol_rel_grad, tol_param, iterations,
                                           save_iterations, run.refresh, run.interrupt, run.logger, run.init_writer,
                                           draws);
  return services::lbfgs<Model, jacobian>(run.model, *inits.contexts[0], run.seed, run.id, inits.radius,
                                          algorithm["history_size"].integer(), init_alpha, tol_obj, tol_rel_obj,
                                          tol_grad, tol_rel_grad, tol_param, iterations, save_iterations, run.refresh,
                                          run.interrupt, run.logger, run.init_writer, draws);
}

}  // namespace

int optimize(Run& run) { return run.options["jacobian"].flag() ? optimize_with<true>(run) : optimize_with<false>(run); }

}  // namespace dais
