#include "run.hpp"

#include <cmath>
#include <cstdlib>

namespace dais {

Run::Run(const Argument& root, stan::model::model_base& the_model, stan::callbacks::logger& the_logger)
    : options(root["method"].chosen()),
      model(the_model),
      logger(the_logger),
      output(root, the_model),
      seed(static_cast<unsigned int>(std::stoull(root["random"]["seed"].value))),
      id(root["id"].integer()),
      refresh(root["output"]["refresh"].integer()),
      init_(root["init"].value) {}

Inits Run::inits(int num_chains) const {
  constexpr double default_radius = 2;
  char* end = nullptr;
  const double radius = std::strtod(init_.c_str(), &end);
  const bool is_number = !init_.empty() && *end == '\0';
  if (!is_number)
    return {read_chain_contexts(init_, num_chains, id), default_radius};
  if (!std::isfinite(radius) || radius < 0)
    throw UsageError("init must be a radius of at least 0 or a file, found \"" + init_ + "\".");
  return {std::vector<ContextPtr>(num_chains, read_context("")), radius};
}

}  // namespace dais
