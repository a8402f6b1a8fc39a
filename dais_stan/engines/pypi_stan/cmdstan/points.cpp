// What is done at points that the user gives: Laplace draws, generated quantities, log density, gradient test.

#include "run.hpp"

#include <stan/services/diagnose/diagnose.hpp>
#include <stan/services/optimize/laplace_sample.hpp>
#include <stan/services/sample/standalone_gqs.hpp>

#include <sstream>

namespace dais {
namespace {

template <bool jacobian>
int laplace_with(Run& run) {
  const Argument& options = run.options;
  const Eigen::VectorXd mode = read_point(options["mode"].value, run.model);
  CsvWriter draws = run.output.csv(run.id, false);
  stan::callbacks::structured_writer no_hessian;
  return stan::services::laplace_sample<jacobian>(run.model, mode, options["draws"].integer(),
                                                  options["calculate_lp"].flag(), run.seed, run.refresh,
                                                  run.interrupt, run.logger, draws, no_hessian);
}

/** The points of log_prob, one a row, on the unconstrained scale. */
Eigen::MatrixXd log_prob_points(Run& run) {
  const std::string& constrained_path = run.options["constrained_params"].value;
  const std::string& unconstrained_path = run.options["unconstrained_params"].value;
  if (constrained_path.empty() == unconstrained_path.empty())
    throw UsageError("log_prob needs either constrained_params or unconstrained_params.");
  if (!unconstrained_path.empty()) {
    const std::vector<double> point = read_context(unconstrained_path)->vals_r("params_r");
    if (point.size() != run.model.num_params_r())
      throw InputError("the entry params_r must have " + std::to_string(run.model.num_params_r())
                       + " values, found " + std::to_string(point.size()) + ".");
    return Eigen::Map<const Eigen::RowVectorXd>(point.data(), point.size());
  }
  if (ends_with(constrained_path, ".json"))
    return read_point(constrained_path, run.model).transpose();
  const Eigen::MatrixXd draws = read_draws(constrained_path, run.model);
  Eigen::MatrixXd points(draws.rows(), run.model.num_params_r());
  for (Eigen::Index i = 0; i < draws.rows(); ++i)
    points.row(i) = unconstrained(run.model, draws.row(i));
  return points;
}

template <bool jacobian>
int log_prob_with(Run& run) {
  const Eigen::MatrixXd points = log_prob_points(run);
  std::vector<std::string> names;
  run.model.unconstrained_param_names(names, false, false);
  for (std::string& name : names)
    name = "g_" + name;
  names.insert(names.begin(), "lp__");
  CsvWriter table = run.output.csv(run.id, false);
  table(names);
  for (Eigen::Index i = 0; i < points.rows(); ++i) {
    Eigen::VectorXd point = points.row(i);
    Eigen::VectorXd gradient;
    std::stringstream messages;
    const double value = stan::model::log_prob_grad<true, jacobian>(run.model, point, gradient, &messages);
    std::vector<double> row{value};
    row.insert(row.end(), gradient.data(), gradient.data() + gradient.size());
    table(row);
  }
  return stan::services::error_codes::OK;
}

}  // namespace

int laplace(Run& run) {
  return run.options["jacobian"].flag() ? laplace_with<true>(run) : laplace_with<false>(run);
}

int log_prob(Run& run) {
  return run.options["jacobian"].flag() ? log_prob_with<true>(run) : log_prob_with<false>(run);
}

int generate_quantities(Run& run) {
  const std::string& path = run.options["fitted_params"].value;
  if (path.empty())
    throw UsageError("generate_quantities needs fitted_params=..., the Stan CSV file with the draws.");
  const int chains = run.options["num_chains"].integer();
  int code = stan::services::error_codes::OK;
  for (int chain = 0; code == stan::services::error_codes::OK && chain < chains; ++chain) {
    const int id = run.id + chain;
    const Eigen::MatrixXd draws = read_draws(chains > 1 ? numbered(path, id) : path, run.model);
    CsvWriter quantities = run.output.csv(id, chains > 1);
    // Stan seeds this service without the chain's number; adding it keeps the noise of chains apart.
    code = stan::services::standalone_generate(run.model, draws, run.seed + id - 1, run.interrupt, run.logger,
                                               quantities);
  }
  return code;
}

int diagnose(Run& run) {
  const Argument& test = run.options["test"].chosen();
  const Inits inits = run.inits(1);
  CsvWriter report = run.output.csv(run.id, false);
  return stan::services::diagnose::diagnose(run.model, *inits.contexts[0], run.seed, run.id, inits.radius,
                                            test["epsilon"].real(), test["error"].real(), run.interrupt, run.logger,
                                            run.init_writer, report);
}

}  // namespace dais
