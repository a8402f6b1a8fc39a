// The posterior mode: L-BFGS, BFGS or Newton, with or without the log Jacobian of the transforms.

#include "run.hpp"

#include <stan/services/optimize/bfgs.hpp>
#include <stan/services/optimize/lbfgs.hpp>
#include <stan/services/optimize/newton.hpp>

namespace dais {
namespace {

namespace optimizers = stan::services::optimize;

/** Passes the draws on and remembers the log density of the last. */
struct LastDensity : stan::callbacks::writer {
  explicit LastDensity(CsvWriter& draws) : draws(draws) {}
  void operator()(const std::vector<std::string>& names) override { draws(names); }
  void operator()(const std::vector<double>& row) override {
    value = row.front();
    draws(row);
  }

  CsvWriter& draws;
  double value = 0;
};

template <bool jacobian>
int newton(Run& run, const stan::io::var_context& init, double radius, CsvWriter& draws) {
  LastDensity last(draws);
  const int code = optimizers::newton<stan::model::model_base, jacobian>(
      run.model, init, run.seed, run.id, radius, run.options["iter"].integer(),
      run.options["save_iterations"].flag(), run.interrupt, run.logger, run.init_writer, last);
  // Stan's first Newton step is a million times too long; where halving it does not find a way back, the
  // density stays NaN or at this mark, and Stan still reports success.
  constexpr double lost = -1e100;
  if (code != stan::services::error_codes::OK || last.value > lost)
    return code;
  run.logger.error("Error: Newton's method left the region of finite log density; use algorithm=lbfgs.");
  return stan::services::error_codes::SOFTWARE;
}

template <bool jacobian>
int optimize_with(Run& run) {
  using Model = stan::model::model_base;
  const Argument& algorithm = run.options["algorithm"].chosen();
  const int iterations = run.options["iter"].integer();
  const bool save_iterations = run.options["save_iterations"].flag();
  const Inits inits = run.inits(1);
  CsvWriter draws = run.output.csv(run.id, false);
  if (algorithm.name == "newton")
    return newton<jacobian>(run, *inits.contexts[0], inits.radius, draws);
  const double init_alpha = algorithm["init_alpha"].real(), tol_obj = algorithm["tol_obj"].real();
  const double tol_rel_obj = algorithm["tol_rel_obj"].real(), tol_grad = algorithm["tol_grad"].real();
  const double tol_rel_grad = algorithm["tol_rel_grad"].real(), tol_param = algorithm["tol_param"].real();
  if (algorithm.name == "bfgs")
    return optimizers::bfgs<Model, jacobian>(
        run.model, *inits.contexts[0], run.seed, run.id, inits.radius, init_alpha, tol_obj, tol_rel_obj,
        tol_grad, tol_rel_grad, tol_param, iterations, save_iterations, run.refresh, run.interrupt, run.logger,
        run.init_writer, draws);
  return optimizers::lbfgs<Model, jacobian>(
      run.model, *inits.contexts[0], run.seed, run.id, inits.radius, algorithm["history_size"].integer(),
      init_alpha, tol_obj, tol_rel_obj, tol_grad, tol_rel_grad, tol_param, iterations, save_iterations, run.refresh,
      run.interrupt, run.logger, run.init_writer, draws);
}

}  // namespace

int optimize(Run& run) {
  return run.options["jacobian"].flag() ? optimize_with<true>(run) : optimize_with<false>(run);
}

}  // namespace dais
