// Markov chain Monte Carlo: NUTS with each metric, with and without adaptation, and fixed parameters.

#include "run.hpp"

#include <stan/services/sample/fixed_param.hpp>
#include <stan/services/sample/hmc_nuts_dense_e.hpp>
#include <stan/services/sample/hmc_nuts_dense_e_adapt.hpp>
#include <stan/services/sample/hmc_nuts_diag_e.hpp>
#include <stan/services/sample/hmc_nuts_diag_e_adapt.hpp>
#include <stan/services/sample/hmc_nuts_unit_e.hpp>
#include <stan/services/sample/hmc_nuts_unit_e_adapt.hpp>
#include <stan/services/util/create_unit_e_dense_inv_metric.hpp>
#include <stan/services/util/create_unit_e_diag_inv_metric.hpp>

namespace dais {
namespace {

namespace samplers = stan::services::sample;

/** The settings and the files of all the chains of one call. */
class Chains {
 public:
  explicit Chains(Run& run)
      : run_(run),
        options_(run.options),
        count_(options_["num_chains"].integer()),
        inits_(run.inits(count_)),
        init_writers_(count_) {
    const bool save_metric = options_["adapt"]["save_metric"].flag();
    for (int chain = 0; chain < count_; ++chain) {
      const int id = run.id + chain;
      draws_.push_back(run.output.csv(id, count_ > 1));
      heads_.push_back(draws_.back().get_stream().tellp());
      states_.push_back(run.output.diagnostic(id, count_ > 1));
      const std::string path = run.output.path();
      metrics_.push_back(
          run.output.json_at(with_ending(count_ > 1 ? numbered(path, id) : path, "_metric.json"), save_metric));
    }
  }

  int fixed_param() {
    return samplers::fixed_param(
        run_.model, count_, inits_.contexts, run_.seed, run_.id, inits_.radius, samples(), thin(), run_.refresh,
        run_.interrupt, run_.logger, init_writers_, draws_, states_);
  }

  int nuts() {
    const bool adapts = options_["adapt"]["engaged"].flag();
    if (adapts && warmup() == 0)
      throw UsageError("num_warmup must be above 0 unless adapt engaged=0 turns adaptation off, found 0.");
    return checked(adapts ? adaptive() : plain());
  }

 private:
  int samples() const { return options_["num_samples"].integer(); }
  int warmup() const { return options_["num_warmup"].integer(); }
  int thin() const { return options_["thin"].integer(); }
  bool save_warmup() const { return options_["save_warmup"].flag(); }
  const Argument& hmc() const { return options_["algorithm"].chosen(); }
  double stepsize() const { return hmc()["stepsize"].real(); }
  double jitter() const { return hmc()["stepsize_jitter"].real(); }
  int max_depth() const { return hmc()["engine"].chosen()["max_depth"].integer(); }

  /** The initial inverse metric of each chain: from the user's files, or the unit metric. */
  std::vector<ContextPtr> metrics(bool dense) const {
    const std::string& path = hmc()["metric_file"].value;
    if (!path.empty())
      return read_chain_contexts(path, count_, run_.id);
    const std::size_t dim = run_.model.num_params_r();
    const auto unit = dense ? stan::services::util::create_unit_e_dense_inv_metric(dim)
                            : stan::services::util::create_unit_e_diag_inv_metric(dim);
    return std::vector<ContextPtr>(count_, std::make_shared<stan::io::array_var_context>(unit));
  }

  int adaptive() {
    const Argument& adapt = options_["adapt"];
    const double delta = adapt["delta"].real(), gamma = adapt["gamma"].real();
    const double kappa = adapt["kappa"].real(), t0 = adapt["t0"].real();
    const unsigned int init_buffer = adapt["init_buffer"].integer();
    const unsigned int term_buffer = adapt["term_buffer"].integer();
    const unsigned int window = adapt["window"].integer();
    const std::string& metric = hmc()["metric"].value;
    if (metric == "unit_e")
      return samplers::hmc_nuts_unit_e_adapt(
          run_.model, count_, inits_.contexts, run_.seed, run_.id, inits_.radius, warmup(), samples(), thin(),
          save_warmup(), run_.refresh, stepsize(), jitter(), max_depth(), delta, gamma, kappa, t0, run_.interrupt,
          run_.logger, init_writers_, draws_, states_, metrics_);
    if (metric == "diag_e")
      return samplers::hmc_nuts_diag_e_adapt(
          run_.model, count_, inits_.contexts, metrics(false), run_.seed, run_.id, inits_.radius, warmup(),
          samples(), thin(), save_warmup(), run_.refresh, stepsize(), jitter(), max_depth(), delta, gamma, kappa, t0,
          init_buffer, term_buffer, window, run_.interrupt, run_.logger, init_writers_, draws_, states_, metrics_);
    return samplers::hmc_nuts_dense_e_adapt(
        run_.model, count_, inits_.contexts, metrics(true), run_.seed, run_.id, inits_.radius, warmup(), samples(),
        thin(), save_warmup(), run_.refresh, stepsize(), jitter(), max_depth(), delta, gamma, kappa, t0, init_buffer,
        term_buffer, window, run_.interrupt, run_.logger, init_writers_, draws_, states_, metrics_);
  }

  int plain() {
    const std::string& metric = hmc()["metric"].value;
    if (metric == "unit_e")
      return samplers::hmc_nuts_unit_e(
          run_.model, count_, inits_.contexts, run_.seed, run_.id, inits_.radius, warmup(), samples(), thin(),
          save_warmup(), run_.refresh, stepsize(), jitter(), max_depth(), run_.interrupt, run_.logger,
          init_writers_, draws_, states_);
    if (metric == "diag_e")
      return samplers::hmc_nuts_diag_e(
          run_.model, count_, inits_.contexts, metrics(false), run_.seed, run_.id, inits_.radius, warmup(),
          samples(), thin(), save_warmup(), run_.refresh, stepsize(), jitter(), max_depth(), run_.interrupt,
          run_.logger, init_writers_, draws_, states_);
    return samplers::hmc_nuts_dense_e(
        run_.model, count_, inits_.contexts, metrics(true), run_.seed, run_.id, inits_.radius, warmup(), samples(),
        thin(), save_warmup(), run_.refresh, stepsize(), jitter(), max_depth(), run_.interrupt, run_.logger,
        init_writers_, draws_, states_);
  }

  /** Stan reports success for a chain that found no first step size, and writes nothing: that is a failure. */
  int checked(int code) {
    for (int chain = 0; code == stan::services::error_codes::OK && chain < count_; ++chain)
      if (draws_[chain].get_stream().tellp() == heads_[chain])
        code = stan::services::error_codes::SOFTWARE;
    return code;
  }

  Run& run_;
  const Argument& options_;
  int count_;
  Inits inits_;
  std::vector<stan::callbacks::writer> init_writers_;
  std::vector<CsvWriter> draws_;
  std::vector<std::streampos> heads_;
  std::vector<CsvWriter> states_;
  std::vector<JsonWriter> metrics_;
};

}  // namespace

int sample(Run& run) {
  const bool asked = run.options["algorithm"].value == "fixed_param";
  // cmdstanpy looks for the words "running fixed_param sampler" to know how to read the draws.
  if (!asked && run.model.num_params_r() == 0)
    run.logger.info("Model contains no parameters, running fixed_param sampler, no updates to Markov chain");
  Chains chains(run);
  return asked || run.model.num_params_r() == 0 ? chains.fixed_param() : chains.nuts();
}

}  // namespace dais
