// What the psi programs of stan_models only declare: the expected log density of any compiled target under a
// Gaussian component, with its gradient. The target is another Stan program's shared library, seen through
// BridgeStan's C functions, so that psi is compiled once and serves every model.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <ostream>
#include <random>
#include <sstream>
#include <stan/math/rev.hpp>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <vector>

namespace infmix {

// Lines of the description: the library, a file with the data, the stem of the report's name, and four numbers.
struct Description {
  std::string library, data_file, report;
  unsigned seed = 0;
  bool propto = false, thread_safe = false, fresh = false;

  explicit Description(const std::vector<int>& bytes) {
    std::istringstream lines(std::string(bytes.begin(), bytes.end()));
    std::getline(lines, library);
    std::getline(lines, data_file);
    std::getline(lines, report);
    lines >> seed >> propto >> thread_safe >> fresh;
    if (!lines) throw std::invalid_argument("the description of the target is not complete");
  }
};

class Target {
 public:
  explicit Target(Description description) : about_(std::move(description)) {
    handle_ = dlopen(about_.library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) throw std::invalid_argument(dlerror());
    find("bs_log_density_gradient", gradient_);
    find("bs_free_error_msg", free_error_);
    find("bs_model_destruct", destruct_);
    void* (*construct)(const char*, unsigned, char**) = nullptr;
    find("bs_model_construct", construct);
    std::ostringstream data;
    data << std::ifstream(about_.data_file).rdbuf();
    char* error = nullptr;
    model_ = construct(data.str().c_str(), about_.seed, &error);
    if (model_ == nullptr) throw std::invalid_argument(take(error));
  }

  // Several processes may report on one run: the name has the process's number.
  ~Target() {
    std::ofstream(about_.report + "." + std::to_string(getpid()))
        << evaluations_ << ' ' << rejected_ << '\n' << last_rejection_ << '\n';
    if (model_ != nullptr) destruct_(model_);
  }

  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  const Description& about() const { return about_; }

  // Log density and gradient at x; a std::domain_error, which rejects the proposal, where either is not finite.
  double log_density_gradient(const Eigen::VectorXd& x, Eigen::VectorXd& gradient) {
    ++evaluations_;
    double value = 0.0;
    char* error = nullptr;
    int code;
    {
      std::unique_lock<std::mutex> alone(mutex_, std::defer_lock);
      if (!about_.thread_safe) alone.lock();
      code = gradient_(model_, about_.propto, true, x.data(), &value, gradient.data(), &error);
    }
    if (code != 0) reject(take(error));
    if (!std::isfinite(value)) reject("the target's log density is " + std::to_string(value));
    if (!gradient.allFinite()) reject("the target's gradient is not finite");
    return value;
  }

 private:
  template <class Function>
  void find(const char* name, Function& function) {
    void* address = dlsym(handle_, name);
    if (address == nullptr) throw std::invalid_argument(dlerror());
    std::memcpy(&function, &address, sizeof function);
  }

  std::string take(char* error) {
    const std::string text = error == nullptr ? "the target failed and gave no reason" : error;
    if (error != nullptr) free_error_(error);
    return text;
  }

  [[noreturn]] void reject(const std::string& reason) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++rejected_;
    last_rejection_ = reason;
    throw std::domain_error(reason);
  }

  Description about_;
  void* handle_ = nullptr;
  void* model_ = nullptr;
  int (*gradient_)(const void*, bool, bool, const double*, double*, double*, char**) = nullptr;
  void (*free_error_)(char*) = nullptr;
  void (*destruct_)(void*) = nullptr;
  std::mutex mutex_;
  std::atomic<long> evaluations_{0};
  long rejected_ = 0;
  std::string last_rejection_;
};

// All targets that this process has opened; a handle is an index.
inline std::vector<std::unique_ptr<Target>>& targets() {
  static std::vector<std::unique_ptr<Target>> opened;
  return opened;
}

// Plain normal nodes that are drawn anew for each NUTS transition and kept along its trajectory. A transition
// begins by evaluating the point where the last one ended, a point seen before, and meets no other point
// twice. The draw depends on that point alone, not on which thread runs the chain.
class FreshNodes {
 public:
  const Eigen::MatrixXd& at(const Eigen::VectorXd& theta, unsigned seed, long rows, long columns) {
    std::size_t key = seed;
    for (const double value : theta) key = key * 1099511628211ULL ^ std::hash<double>()(value);
    if (!seen_.insert(key).second || nodes_.rows() != rows || nodes_.cols() != columns) {
      seen_ = {key};
      std::mt19937_64 generator(key);
      std::normal_distribution<double> normal;
      nodes_.resize(rows, columns);
      for (double& node : nodes_.reshaped()) node = normal(generator);
    }
    return nodes_;
  }

 private:
  std::unordered_set<std::size_t> seen_;
  Eigen::MatrixXd nodes_;
};

inline void place(const Eigen::VectorXd& mu, double scale, const double* node, Eigen::VectorXd& x) {
  x = mu + scale * Eigen::Map<const Eigen::VectorXd>(node, mu.size());
}
inline void place(const Eigen::VectorXd& mu, const Eigen::VectorXd& scale, const double* node, Eigen::VectorXd& x) {
  x = mu + scale.cwiseProduct(Eigen::Map<const Eigen::VectorXd>(node, mu.size()));
}
inline void place(const Eigen::VectorXd& mu, const Eigen::MatrixXd& scale, const double* node, Eigen::VectorXd& x) {
  x = mu;
  x.noalias() += scale.triangularView<Eigen::Lower>() * Eigen::Map<const Eigen::VectorXd>(node, mu.size());
}

inline void gather(const Eigen::VectorXd& g, const double* node, double& scale_bar) {
  scale_bar += g.dot(Eigen::Map<const Eigen::VectorXd>(node, g.size()));
}
inline void gather(const Eigen::VectorXd& g, const double* node, Eigen::VectorXd& scale_bar) {
  scale_bar += g.cwiseProduct(Eigen::Map<const Eigen::VectorXd>(node, g.size()));
}
inline void gather(const Eigen::VectorXd& g, const double* node, Eigen::MatrixXd& scale_bar) {
  scale_bar.noalias() += g * Eigen::Map<const Eigen::VectorXd>(node, g.size()).transpose();
}

inline double zero_like(double) { return 0.0; }
template <class Dense>
Dense zero_like(const Dense& like) {
  return Dense::Zero(like.rows(), like.cols());
}

template <class Scale>
struct Expectation {
  double value = 0.0;
  Eigen::VectorXd mu_bar;
  Scale scale_bar;
};

// The mean of l(mu + scale * node) over the nodes, and its gradient.
template <class Scale>
Expectation<Scale> expectation(Target& target, const Eigen::VectorXd& mu, const Scale& scale,
                               const Eigen::Ref<const Eigen::MatrixXd>& nodes) {
  thread_local Eigen::VectorXd x, g;
  g.resize(mu.size());
  Expectation<Scale> out{0.0, Eigen::VectorXd::Zero(mu.size()), zero_like(scale)};
  for (long m = 0; m < nodes.cols(); ++m) {
    const double* node = nodes.col(m).data();
    place(mu, scale, node, x);
    out.value += target.log_density_gradient(x, g);
    out.mu_bar += g;
    gather(g, node, out.scale_bar);
  }
  const double share = 1.0 / nodes.cols();
  out.value *= share;
  out.mu_bar *= share;
  out.scale_bar *= share;
  return out;
}

inline Eigen::VectorXd flat(double scale) { return Eigen::VectorXd::Constant(1, scale); }
template <class Dense>
Eigen::VectorXd flat(const Dense& scale) {
  return scale.reshaped();
}

template <class Scale>
Expectation<Scale> expectation(int handle, const Eigen::VectorXd& mu, const Scale& scale,
                               const Eigen::Ref<const Eigen::MatrixXd>& nodes) {
  Target& target = *targets().at(handle);
  if (!target.about().fresh) return expectation(target, mu, scale, nodes);
  thread_local FreshNodes fresh;
  Eigen::VectorXd theta(mu.size() + flat(scale).size());
  theta << mu, flat(scale);
  return expectation(target, mu, scale, fresh.at(theta, target.about().seed, nodes.rows(), nodes.cols()));
}

}  // namespace infmix

inline int target_open(const std::vector<int>& bytes, std::ostream*) {
  infmix::targets().push_back(std::make_unique<infmix::Target>(infmix::Description(bytes)));
  return static_cast<int>(infmix::targets().size()) - 1;
}

template <class Mu, class Scale, class Nodes, stan::require_all_st_arithmetic<Mu, Scale>* = nullptr>
double target_log_density(int handle, const Mu& mu, const Scale& scale, const Nodes& nodes, std::ostream*) {
  const Eigen::VectorXd location = mu;
  const stan::plain_type_t<Scale> spread = scale;
  return infmix::expectation(handle, location, spread, nodes).value;
}

template <class Mu, class Scale, class Nodes, stan::require_all_st_var<Mu, Scale>* = nullptr>
stan::math::var target_log_density(int handle, const Mu& mu, const Scale& scale, const Nodes& nodes, std::ostream*) {
  stan::arena_t<stan::plain_type_t<Mu>> location = mu;
  stan::arena_t<stan::plain_type_t<Scale>> spread = scale;
  const Eigen::VectorXd location_value = stan::math::value_of(location);
  const auto spread_value = stan::math::eval(stan::math::value_of(spread));
  auto found = infmix::expectation(handle, location_value, spread_value, nodes);
  stan::arena_t<Eigen::VectorXd> mu_bar = found.mu_bar;
  auto scale_bar = stan::math::to_arena(found.scale_bar);
  return stan::math::make_callback_var(found.value, [location, spread, mu_bar, scale_bar](auto& result) mutable {
    location.adj() += result.adj() * mu_bar;
    spread.adj() += result.adj() * scale_bar;
  });
}
