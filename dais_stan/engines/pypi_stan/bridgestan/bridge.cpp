// The bs_* functions over any compiled Stan program. Compiled once; each program's own object, which stanc
// writes, is linked to it and brings new_model.
#include "bridge.hpp"
#include "log_density.hpp"
#include "messages.hpp"

#include <stan/io/chained_var_context.hpp>
#include <stan/io/empty_var_context.hpp>
#include <stan/io/json/json_data.hpp>
#include <stan/io/random_var_context.hpp>
#include <stan/services/util/create_rng.hpp>
#include <stan/version.hpp>

#include <array>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

stan::model::model_base& new_model(stan::io::var_context& data, unsigned int seed, std::ostream* messages);

using Eigen::VectorXd;
using ConstMap = Eigen::Map<const VectorXd>;
using Map = Eigen::Map<VectorXd>;
using Names = std::vector<std::string>;
using VarContext = std::unique_ptr<stan::io::var_context>;

int bs_major_version = 2;
int bs_minor_version = 9;
int bs_patch_version = 0;

struct bs_rng {
  stan::rng_t engine;
};

namespace {

std::string join(const Names& names) {
  std::string joined;
  for (const std::string& name : names) {
    if (!joined.empty()) joined += ',';
    joined += name;
  }
  return joined;
}

std::string describe(const stan::model::model_base& model) {
  std::ostringstream info;
  auto flag = [&info](const char* name, bool on) { info << '\t' << name << (on ? "=true\n" : "=false\n"); };
  info << "BridgeStan version: " << bs_major_version << '.' << bs_minor_version << '.' << bs_patch_version
       << " (dais-stan)\nStan version: " << stan::MAJOR_VERSION << '.' << stan::MINOR_VERSION << '.'
       << stan::PATCH_VERSION << "\nStan C++ Defines:\n";
#ifdef STAN_THREADS
  flag("STAN_THREADS", true);
#else
  flag("STAN_THREADS", false);
#endif
#ifdef STAN_NO_RANGE_CHECKS
  flag("STAN_NO_RANGE_CHECKS", true);
#else
  flag("STAN_NO_RANGE_CHECKS", false);
#endif
#ifdef STAN_MODEL_FVAR_VAR
  flag("BRIDGESTAN_AD_HESSIAN", true);
#else
  flag("BRIDGESTAN_AD_HESSIAN", false);
#endif
  info << "Stan Compiler Details:\n";
  for (const std::string& line : model.model_compile_info()) info << '\t' << line << '\n';
  return info.str();
}

VarContext read_json(std::istream& stream) { return std::make_unique<stan::json::json_data>(stream); }

// The data or initial values in `source`: JSON text, the path of a .json file, or nothing.
VarContext read_values(const char* source) {
  const std::string text = source ? source : "";
  if (text.empty()) return std::make_unique<stan::io::empty_var_context>();
  const std::string suffix = ".json";
  if (text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0) {
    std::ifstream file(text);
    if (!file) throw std::runtime_error("cannot open " + text);
    return read_json(file);
  }
  std::istringstream stream(text);
  return read_json(stream);
}

// Stan's autodiff has one stack a thread, which has to be made in every thread that calls.
void use_autodiff_in_this_thread() { thread_local stan::math::ChainableStack stack; }

void report(const char* message, char** error) noexcept {
  if (error) *error = strdup(message);
}

// Run `body`; return its result, or `failed` with the exception's message.
template <typename Body, typename Result>
Result guarded(Body body, Result failed, char** error) noexcept {
  try {
    use_autodiff_in_this_thread();
    return body();
  } catch (const std::exception& exception) {
    report(exception.what(), error);
  } catch (...) {
    report("unknown C++ exception", error);
  }
  return failed;
}

template <typename Body>
int status(Body body, char** error) noexcept {
  return guarded(
      [&body] {
        body();
        return 0;
      },
      1, error);
}

}  // namespace

struct bs_model {
  std::unique_ptr<stan::model::model_base> model;
  std::string name, info, unconstrained_names;

  explicit bs_model(stan::model::model_base& made)
      : model(&made), name(made.model_name()), info(describe(made)) {
    Names names;
    made.unconstrained_param_names(names, false, false);
    unconstrained_names = join(names);
  }

  struct Columns {
    std::once_flag listed;
    std::string names;
    int number = 0;
  };

  // Listed when first asked for: generated quantities may have millions of elements.
  const Columns& columns(bool include_tp, bool include_gq) const {
    Columns& columns = columns_[2 * include_tp + include_gq];
    std::call_once(columns.listed, [&] {
      Names names;
      model->constrained_param_names(names, include_tp, include_gq);
      columns.names = join(names);
      columns.number = static_cast<int>(names.size());
    });
    return columns;
  }

  int dim() const { return static_cast<int>(model->num_params_r()); }
  ConstMap point(const double* z) const { return ConstMap(z, dim()); }

 private:
  mutable std::array<Columns, 4> columns_;
};

namespace {

bool names_all_parameters(const stan::model::model_base& model, const stan::io::var_context& values) {
  Names names;
  model.get_param_names(names, false, false);
  for (const std::string& name : names)
    if (!values.contains_r(name)) return false;
  return true;
}

// One try of bs_param_initialize; throws std::domain_error if the point is not usable.
VectorXd try_initial_point(const bs_model& model, const bridge::LogDensity& log_density,
                           const stan::io::var_context& values, bs_rng& rng, double radius,
                           std::ostream* messages) {
  stan::io::random_var_context random(*model.model, rng.engine, radius, radius == 0);
  stan::io::chained_var_context context(values, random);
  VectorXd z(model.dim()), gradient(model.dim());
  model.model->transform_inits(context, z, messages);
  if (!std::isfinite(log_density.value_and_gradient(z, gradient)))
    throw std::domain_error("the log density is not finite");
  if (!gradient.allFinite()) throw std::domain_error("the gradient is not finite");
  return z;
}

}  // namespace

bs_model* bs_model_construct(const char* data, unsigned int seed, char** error) {
  return guarded(
      [&]() -> bs_model* {
        bridge::Messages messages;
        VarContext context = read_values(data);
        return new bs_model(new_model(*context, seed, messages.get()));
      },
      static_cast<bs_model*>(nullptr), error);
}

void bs_model_destruct(bs_model* model) { delete model; }

bs_rng* bs_rng_construct(unsigned int seed, char** error) {
  // Stream 0 belongs to the transformed data, which Stan seeds with the same number.
  return guarded([&]() -> bs_rng* { return new bs_rng{stan::services::util::create_rng(seed, 1)}; },
                 static_cast<bs_rng*>(nullptr), error);
}

void bs_rng_destruct(bs_rng* rng) { delete rng; }

void bs_free_error_msg(char* error) { std::free(error); }

int bs_set_print_callback(bs_print_callback callback, char** error) {
  return status([&] { bridge::print_callback = callback; }, error);
}

const char* bs_name(const bs_model* model) { return model->name.c_str(); }

const char* bs_model_info(const bs_model* model) { return model->info.c_str(); }

const char* bs_param_names(const bs_model* model, bool include_tp, bool include_gq) {
  return model->columns(include_tp, include_gq).names.c_str();
}

const char* bs_param_unc_names(const bs_model* model) { return model->unconstrained_names.c_str(); }

int bs_param_num(const bs_model* model, bool include_tp, bool include_gq) {
  return model->columns(include_tp, include_gq).number;
}

int bs_param_unc_num(const bs_model* model) { return model->dim(); }

int bs_param_constrain(const bs_model* model, bool include_tp, bool include_gq, const double* z, double* x,
                       bs_rng* rng, char** error) {
  return status(
      [&] {
        if (include_gq && !rng) throw std::invalid_argument("generated quantities need a random generator");
        thread_local bs_rng unused{stan::services::util::create_rng(0, 1)};
        bridge::Messages messages;
        VectorXd point = model->point(z), values;
        model->model->write_array((rng ? rng : &unused)->engine, point, values, include_tp, include_gq,
                                  messages.get());
        Map(x, values.size()) = values;
      },
      error);
}

int bs_param_unconstrain(const bs_model* model, const double* x, double* z, char** error) {
  return status(
      [&] {
        bridge::Messages messages;
        VectorXd point(model->dim());
        model->model->unconstrain_array(ConstMap(x, model->columns(false, false).number), point,
                                        messages.get());
        Map(z, model->dim()) = point;
      },
      error);
}

int bs_param_unconstrain_json(const bs_model* model, const char* json, double* z, char** error) {
  return status(
      [&] {
        bridge::Messages messages;
        VectorXd point(model->dim());
        model->model->transform_inits(*read_values(json), point, messages.get());
        Map(z, model->dim()) = point;
      },
      error);
}

int bs_param_initialize(const bs_model* model, const char* json, bs_rng* rng, double radius, int max_tries,
                        bool jacobian, double* z, char** error) {
  return status(
      [&] {
        bridge::Messages messages;
        const bridge::LogDensity log_density(*model->model, true, jacobian, messages.get());
        const VarContext values = read_values(json);
        const bool random = radius != 0 && !names_all_parameters(*model->model, *values);
        std::string reason = "no try was allowed";
        for (int tries = 0; tries < (random ? max_tries : 1); ++tries) {
          try {
            Map(z, model->dim())
                = try_initial_point(*model, log_density, *values, *rng, radius, messages.get());
            return;
          } catch (const std::domain_error& rejected) {
            reason = rejected.what();
          }
        }
        throw std::domain_error("Initialization failed: " + reason);
      },
      error);
}

int bs_log_density(const bs_model* model, bool propto, bool jacobian, const double* z, double* value,
                   char** error) {
  return status(
      [&] {
        bridge::Messages messages;
        *value = bridge::LogDensity(*model->model, propto, jacobian, messages.get()).value(model->point(z));
      },
      error);
}

int bs_log_density_gradient(const bs_model* model, bool propto, bool jacobian, const double* z, double* value,
                            double* gradient, char** error) {
  return status(
      [&] {
        bridge::Messages messages;
        const bridge::LogDensity log_density(*model->model, propto, jacobian, messages.get());
        *value = log_density.value_and_gradient(model->point(z), Map(gradient, model->dim()));
      },
      error);
}

int bs_log_density_hessian(const bs_model* model, bool propto, bool jacobian, const double* z, double* value,
                           double* gradient, double* hessian, char** error) {
  return status(
      [&] {
        bridge::Messages messages;
        const bridge::LogDensity log_density(*model->model, propto, jacobian, messages.get());
        VectorXd first(model->dim());
        Eigen::MatrixXd second(model->dim(), model->dim());
        *value = bridge::hessian(log_density, model->point(z), first, second);
        Map(gradient, model->dim()) = first;
        Eigen::Map<Eigen::MatrixXd>(hessian, model->dim(), model->dim()) = second;
      },
      error);
}

int bs_log_density_hessian_vector_product(const bs_model* model, bool propto, bool jacobian, const double* z,
                                          const double* v, double* value, double* product, char** error) {
  return status(
      [&] {
        bridge::Messages messages;
        const bridge::LogDensity log_density(*model->model, propto, jacobian, messages.get());
        VectorXd result(model->dim());
        *value = bridge::hessian_vector_product(log_density, model->point(z), model->point(v), result);
        Map(product, model->dim()) = result;
      },
      error);
}
