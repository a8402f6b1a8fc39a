// A model behind BridgeStan's C functions, given by their addresses, and the failure policy: a point whose
// evaluation raises or gives anything that is not finite gets log density -inf and a zero derivative, and is
// counted.
#pragma once

#include <algorithm>
#include <atomic>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>

namespace dais {

using Model = const void*;
using LogDensity = int (*)(Model, bool, bool, const double*, double*, char**);
using Gradient = int (*)(Model, bool, bool, const double*, double*, double*, char**);
using Hvp = int (*)(Model, bool, bool, const double*, const double*, double*, double*, char**);
using FreeError = void (*)(char*);

constexpr double kSerialNs = 30e3;  // a job cheaper than this is not worth another thread
constexpr double kShareNs = 10e3;   // what one share of a job should cost: small beside a job, large beside a lock

inline thread_local std::string last_message;  // of the calling thread's last batch with failures
inline std::mutex unsafe_library;  // held while a library that is not thread-safe runs, whoever calls it

struct Evaluator {
  Model model;
  LogDensity log_density;
  Gradient gradient;
  Hvp hvp;
  FreeError free_error;
  long dim;
  bool propto;
  bool thread_safe;
  int threads;
  std::atomic<double> point_ns[3] = {0.0, 0.0, 0.0};  // running estimates: log density, gradient, HVP
};

enum Kind { kLogDensity, kGradient, kHvp };

// Counts the failed points and keeps the message of the first one in the batch's order, so that the message
// does not depend on which thread was quicker.
class Failures {
 public:
  void record(long point, const char* text) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
    if (point < first_) {
      first_ = point;
      message_ = text;
    }
  }
  long report() {
    if (count_ > 0) last_message = std::move(message_);
    return count_;
  }

 private:
  std::mutex mutex_;
  long count_ = 0, first_ = LONG_MAX;
  std::string message_;
};

inline bool all_finite(const double* x, long n) {
  constexpr std::uint64_t exponent = 0x7ff0000000000000ULL;  // all ones in an infinity or a NaN
  bool finite = true;
  for (long i = 0; i < n; ++i) {
    std::uint64_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    finite &= (bits & exponent) != exponent;
  }
  return finite;
}

inline const char* describe(double value, const char* derivative) {
  if (std::isnan(value)) return "the log density is NaN";
  if (std::isinf(value)) return value > 0 ? "the log density is +inf" : "the log density is -inf";
  return derivative;
}

// The failure policy for one point. `derivative` has n numbers: none, a gradient or a Hessian-vector product.
inline void settle(const Evaluator& e, Failures& failures, long point, int code, char* error, double* value,
                   double* derivative, long n, const char* derivative_name) {
  if (code == 0 && std::isfinite(*value) && all_finite(derivative, n)) return;
  const bool raised = code != 0;
  const char* stan_text = error != nullptr ? error : "the log density could not be evaluated";
  failures.record(point, raised ? stan_text : describe(*value, derivative_name));
  if (error != nullptr) e.free_error(error);
  *value = -std::numeric_limits<double>::infinity();
  std::fill(derivative, derivative + n, 0.0);
}

// The log density (returned) and its gradient (dim) at z.
inline double evaluate_gradient(const Evaluator& e, Failures& failures, long point, const double* z,
                                double* gradient) {
  char* error = nullptr;
  double value = 0.0;
  const int code = e.gradient(e.model, e.propto, true, z, &value, gradient, &error);
  settle(e, failures, point, code, error, &value, gradient, e.dim, "the gradient is not finite");
  return value;
}

// The Hessian at z times v (dim).
inline void evaluate_hvp(const Evaluator& e, Failures& failures, long point, const double* z, const double* v,
                         double* product) {
  char* error = nullptr;
  double value = 0.0;
  const int code = e.hvp(e.model, e.propto, true, z, v, &value, product, &error);
  settle(e, failures, point, code, error, &value, product, e.dim,
         "the Hessian-vector product is not finite");
}

}  // namespace dais
