#ifndef DAIS_STAN_CMDSTAN_RUN_HPP
#define DAIS_STAN_CMDSTAN_RUN_HPP

#include "arguments.hpp"
#include "input.hpp"
#include "output.hpp"

#include <stan/callbacks/interrupt.hpp>
#include <stan/callbacks/logger.hpp>
#include <stan/callbacks/writer.hpp>
#include <stan/model/model_header.hpp>
#include <stan/services/error_codes.hpp>

#include <vector>

namespace dais {

/** Where the chains start: a context each and the radius for what the contexts leave out. */
struct Inits {
  std::vector<ContextPtr> contexts;
  double radius;
};

/** What every method needs: the settings, the model with its data, and the places to write to. */
struct Run {
  Run(const Argument& root, stan::model::model_base& model, stan::callbacks::logger& logger);

  Inits inits(int num_chains) const;

  const Argument& options;  // of the chosen method
  stan::model::model_base& model;
  stan::callbacks::logger& logger;
  stan::callbacks::interrupt interrupt;
  stan::callbacks::writer init_writer;  // initial values are not kept
  Output output;
  unsigned int seed;
  int id;
  int refresh;

 private:
  const std::string& init_;
};

/** @name The methods: each returns a process exit code, 0 for success. @{ */
int sample(Run& run);
int optimize(Run& run);
int variational(Run& run);
int pathfinder(Run& run);
int laplace(Run& run);
int generate_quantities(Run& run);
int log_prob(Run& run);
int diagnose(Run& run);
/** @} */

}  // namespace dais

#endif
