#include "command_line.hpp"

#include <chrono>
#include <cstdlib>
#include <limits>

namespace dais {
namespace {

constexpr long long largest_int = std::numeric_limits<int>::max();

/** A seed that differs from run to run, for the user who names none. */
long long clock_seed() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count() % largest_int;
}

/** STAN_NUM_THREADS, which is how cmdstanpy says it, or 1. */
long long threads_of_environment() {
  const char* said = std::getenv("STAN_NUM_THREADS");
  const long long number = said ? std::atoll(said) : 1;
  return number == 0 ? 1 : number;
}

/** The stopping rules that L-BFGS and BFGS share, as Stan's optimisers define them. */
std::vector<Argument> line_search_rules() {
  return {positive_real("init_alpha", "Line search step size of the first iteration.", 0.001),
          positive_real("tol_obj", "Convergence tolerance on changes of the objective.", 1e-12),
          positive_real("tol_rel_obj", "Convergence tolerance on relative changes of the objective.", 1e4),
          positive_real("tol_grad", "Convergence tolerance on the norm of the gradient.", 1e-8),
          positive_real("tol_rel_grad", "Convergence tolerance on the relative norm of the gradient.", 1e7),
          positive_real("tol_param", "Convergence tolerance on changes of the parameters.", 1e-8)};
}

std::vector<Argument> with_history(std::vector<Argument> rules) {
  rules.push_back(positive("history_size", "Update vectors kept for the Hessian approximation.", 5));
  return rules;
}

Argument sample_method() {
  Argument adapt = group(
      "adapt", "Warmup adaptation.",
      {flag("engaged", "Adapt step size and metric.", true),
       positive_real("gamma", "Adaptation regularisation scale.", 0.05),
       real("delta", "Target acceptance statistic.", 0.8, "between 0 and 1",
            [](double x) { return x > 0 && x < 1; }),
       positive_real("kappa", "Adaptation relaxation exponent.", 0.75),
       positive_real("t0", "Adaptation iteration offset.", 10),
       natural("init_buffer", "Width of the initial fast adaptation interval.", 75),
       natural("term_buffer", "Width of the final fast adaptation interval.", 50),
       natural("window", "Initial width of the slow adaptation interval.", 25),
       flag("save_metric", "Write the adapted metric and step size as JSON.", false)});
  Argument hmc = group(
      "hmc", "Hamiltonian Monte Carlo.",
      {choice("engine", "Engine.", "nuts",
              {group("nuts", "The No-U-Turn sampler.", {positive("max_depth", "Maximum tree depth.", 10)})}),
       choice("metric", "Geometry of the base manifold.", "diag_e",
              {group("unit_e", "Unit metric.", {}), group("diag_e", "Diagonal metric.", {}),
               group("dense_e", "Dense metric.", {})}),
       text("metric_file", "File with the initial inverse metric, entry inv_metric."),
       positive_real("stepsize", "Initial step size.", 1),
       real("stepsize_jitter", "Uniform jitter of the step size.", 0, "from 0 to 1",
            [](double x) { return x >= 0 && x <= 1; })});
  return group("sample", "Markov chain Monte Carlo.",
               {natural("num_samples", "Sampling iterations.", 1000),
                natural("num_warmup", "Warmup iterations.", 1000),
                flag("save_warmup", "Write the warmup draws too.", false),
                positive("thin", "Period between saved draws.", 1), adapt,
                choice("algorithm", "Sampling algorithm.", "hmc",
                       {hmc, group("fixed_param", "Parameters stay at their initial values.", {})}),
                positive("num_chains", "Chains run by this process.", 1)});
}

Argument optimize_method() {
  return group("optimize", "Posterior mode, or penalised maximum likelihood.",
               {choice("algorithm", "Optimiser.", "lbfgs",
                       {group("bfgs", "BFGS with line search.", line_search_rules()),
                        group("lbfgs", "Limited-memory BFGS.", with_history(line_search_rules())),
                        group("newton", "Newton's method.", {})}),
                flag("jacobian", "Add the log Jacobian of the transforms (unconstrained mode).", false),
                positive("iter", "Maximum number of iterations.", 2000),
                flag("save_iterations", "Write every iteration.", false)});
}

Argument variational_method() {
  return group("variational", "Automatic differentiation variational inference.",
               {choice("algorithm", "Family.", "meanfield",
                       {group("meanfield", "Gaussian with diagonal covariance.", {}),
                        group("fullrank", "Gaussian with full covariance.", {})}),
                positive("iter", "Maximum number of iterations.", 10000),
                positive("grad_samples", "Draws for each gradient.", 1),
                positive("elbo_samples", "Draws for each ELBO.", 100),
                positive_real("eta", "Step size scale.", 1),
                group("adapt", "Choice of eta.",
                      {flag("engaged", "Choose eta by trial.", true),
                       positive("iter", "Iterations of each trial.", 50)}),
                positive_real("tol_rel_obj", "Convergence tolerance on relative changes of the ELBO.", 0.01),
                positive("eval_elbo", "Iterations between ELBO evaluations.", 100),
                natural("output_samples", "Draws written from the approximation.", 1000)});
}

Argument pathfinder_method() {
  std::vector<Argument> members = with_history(line_search_rules());
  for (Argument& own :
       std::vector<Argument>{natural("num_psis_draws", "Draws kept by importance resampling.", 1000),
                             positive("num_paths", "Single paths to run.", 4),
                             flag("save_single_paths", "Write each path to files of its own.", false),
                             flag("psis_resample", "Resample with Pareto-smoothed importance weights.", true),
                             flag("calculate_lp", "Evaluate the log density of the draws.", true),
                             positive("max_lbfgs_iters", "Maximum number of L-BFGS iterations.", 1000),
                             positive("num_draws", "Draws of each path.", 1000),
                             positive("num_elbo_draws", "Draws for each ELBO.", 25)})
    members.push_back(std::move(own));
  return group("pathfinder", "Pathfinder variational inference.", std::move(members));
}

std::vector<Argument> small_methods() {
  return {group("laplace", "Laplace approximation at a given mode.",
                {text("mode", "Mode: a Stan CSV file of optimize, or JSON, on the constrained scale."),
                 flag("jacobian", "The mode includes the log Jacobian of the transforms.", true),
                 positive("draws", "Draws from the approximation.", 1000),
                 flag("calculate_lp", "Evaluate the log density of the draws.", true)}),
          group("generate_quantities", "Generated quantities of draws that exist.",
                {text("fitted_params", "Stan CSV file with the draws."), positive("num_chains", "Chains.", 1)}),
          group("log_prob", "Log density and gradient at given points.",
                {text("unconstrained_params", "JSON file whose entry params_r is one point."),
                 text("constrained_params", "JSON file of one point, or Stan CSV file of draws."),
                 flag("jacobian", "Add the log Jacobian of the transforms.", true)}),
          group("diagnose", "Gradients against finite differences.",
                {choice("test", "Test.", "gradient",
                        {group("gradient", "Gradient test.",
                               {positive_real("epsilon", "Finite difference step.", 1e-6),
                                positive_real("error", "Largest absolute error accepted.", 1e-6)})})})};
}

}  // namespace

Argument command_line() {
  std::vector<Argument> methods{sample_method(), optimize_method(), variational_method(), pathfinder_method()};
  for (Argument& method : small_methods())
    methods.push_back(std::move(method));
  const auto largest_seed = static_cast<long long>(std::numeric_limits<unsigned int>::max());
  return group(
      "", "",
      {choice("method", "Inference method.", "sample", std::move(methods)),
       integer("id", "Number of the (first) chain.", 1, 0, largest_int),
       group("data", "Data of the model.", {text("file", "JSON or R dump file.")}),
       text("init", "Radius of uniform initial values in unconstrained space, or a file of them.", "2"),
       group("random", "Random numbers.", {integer("seed", "Seed.", clock_seed(), 0, largest_seed)}),
       group("output", "Output files and messages.",
             {text("file", "Stan CSV file to write.", "output.csv"),
              text("diagnostic_file", "CSV file for the sampler's internal state."),
              natural("refresh", "Iterations between progress messages; 0 for none.", 100),
              integer("sig_figs", "Significant figures of numbers; -1 for the C++ default.", -1, -1, 18),
              text("profile_file", "CSV file for the timings of profile blocks.", "profile.csv")}),
       integer("num_threads", "Threads; -1 for every core.", threads_of_environment(), -1, largest_int)});
}

}  // namespace dais
