// Pathfinder: one path, or several with Pareto-smoothed importance resampling.

#include "run.hpp"

#include <stan/services/pathfinder/multi.hpp>

namespace dais {

int pathfinder(Run& run) {
  const Argument& options = run.options;
  const int paths = options["num_paths"].integer();
  const bool save = options["save_single_paths"].flag();
  // The draws of one path are written as they are: there is nothing to weigh them against.
  const bool resample = paths > 1 && options["psis_resample"].flag();
  const Inits inits = run.inits(paths);
  CsvWriter draws = run.output.csv(run.id, false);
  std::vector<stan::callbacks::writer> init_writers(paths);
  std::vector<CsvWriter> path_draws;
  std::vector<JsonWriter> path_traces;
  for (int path = 0; path < paths; ++path) {
    const std::string file = numbered(run.output.path(), run.id + path, "_path_");
    path_draws.push_back(save ? run.output.csv_at(file, run.id + path) : CsvWriter(nullptr, "# "));
    path_traces.push_back(run.output.json_at(with_ending(file, ".json"), save));
  }
  JsonWriter no_trace;
  return stan::services::pathfinder::pathfinder_lbfgs_multi(
      run.model, inits.contexts, run.seed, run.id, inits.radius, options["history_size"].integer(),
      options["init_alpha"].real(), options["tol_obj"].real(), options["tol_rel_obj"].real(),
      options["tol_grad"].real(), options["tol_rel_grad"].real(), options["tol_param"].real(),
      options["max_lbfgs_iters"].integer(), options["num_elbo_draws"].integer(), options["num_draws"].integer(),
      options["num_psis_draws"].integer(), paths, save, run.refresh, run.interrupt, run.logger, init_writers,
      path_draws, path_traces, draws, no_trace, options["calculate_lp"].flag(), resample);
}

}  // namespace dais
