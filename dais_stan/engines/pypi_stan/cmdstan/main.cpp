// The program that a compiled Stan model becomes: it reads CmdStan's command line and runs Stan's services.

#include "command_line.hpp"
#include "run.hpp"

#include <stan/callbacks/stream_logger.hpp>
#include <stan/math/prim/core/init_threadpool_tbb.hpp>
#include <stan/version.hpp>

#include <iostream>
#include <map>
#include <memory>

// Both are defined by the C++ that stanc makes of a Stan program.
stan::model::model_base& new_model(stan::io::var_context& data, unsigned int seed, std::ostream* messages);
stan::math::profile_map& get_stan_profile_data();

namespace dais {
namespace {

using stan::services::error_codes;

#ifdef STAN_THREADS
constexpr const char* threads = "true";
#else
constexpr const char* threads = "false";
#endif

void print_info() {
  std::cout << "stan_version_major = " << stan::MAJOR_VERSION << '\n'
            << "stan_version_minor = " << stan::MINOR_VERSION << '\n'
            << "stan_version_patch = " << stan::PATCH_VERSION << '\n'
            << "STAN_THREADS=" << threads << "\nSTAN_MPI=false\nSTAN_OPENCL=false\n";
}

/** Answers the words that ask about the program itself; returns whether there was one. */
bool answered(const Argument& root, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "info") {
      print_info();
      return true;
    }
    if (word == "help" || word == "help-all") {
      std::cout << "Usage: <program> <method> [name=value ...] data file=... output file=...\n\n";
      print_help(root, std::cout, word == "help-all");
      return true;
    }
  }
  return false;
}

std::unique_ptr<stan::model::model_base> make_model(const Argument& root) {
  // new_model wants a context that it may change, though it only reads it.
  const ContextPtr data = read_context(root["data"]["file"].value);
  auto& context = const_cast<stan::io::var_context&>(*data);
  const auto seed = static_cast<unsigned int>(std::stoull(root["random"]["seed"].value));
  return std::unique_ptr<stan::model::model_base>(&new_model(context, seed, &std::cout));
}

void require_parameters(const std::string& method, const stan::model::model_base& model) {
  const bool needs_them = method != "sample" && method != "generate_quantities" && method != "diagnose";
  if (needs_them && model.num_params_r() == 0)
    throw UsageError("the method " + method + " needs a model with parameters, and this one has none.");
}

int run_method(const Argument& root) {
  const int threads = root["num_threads"].integer();
  if (threads == 0)
    throw UsageError("num_threads must be -1 or above 0, found 0.");
  stan::math::init_threadpool_tbb(threads);
  const auto model = make_model(root);
  const std::string& method = root["method"].value;
  require_parameters(method, *model);
  write_settings(root, *model, [](const std::string& line) { std::cout << line << '\n'; });
  std::cout << std::endl;
  stan::callbacks::stream_logger logger(std::cout, std::cout, std::cout, std::cerr, std::cerr);
  Run run(root, *model, logger);
  const std::map<std::string, int (*)(Run&)> methods{
      {"sample", sample},          {"optimize", optimize}, {"variational", variational},
      {"pathfinder", pathfinder},  {"laplace", laplace},   {"generate_quantities", generate_quantities},
      {"log_prob", log_prob},      {"diagnose", diagnose}};
  const int code = methods.at(method)(run);
  write_profile(root["output"]["profile_file"].value, get_stan_profile_data());
  return code;
}

int run_program(const std::vector<std::string>& words) {
  Argument root = command_line();
  if (answered(root, words))
    return error_codes::OK;
  parse(root, words);
  return run_method(root);
}

}  // namespace
}  // namespace dais

int main(int argc, char** argv) {
  using stan::services::error_codes;
  // cmdstanpy shows the lines that start with "Error" or "Exception" when a run fails.
  const auto report = [](const std::string& message, int code) {
    std::cerr << "Error: " << message << std::endl;
    return code;
  };
  try {
    return dais::run_program(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const dais::UsageError& e) {
    return report(e.what(), error_codes::USAGE);
  } catch (const dais::InputError& e) {
    return report(e.what(), error_codes::DATAERR);
  } catch (const std::exception& e) {
    return report(e.what(), error_codes::CONFIG);
  }
}
