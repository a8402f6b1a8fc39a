// Evaluates a batch of points through a BridgeStan library's C functions, given by their addresses, on the
// shared thread pool. It also applies the failure policy: a point whose evaluation raises or gives anything
// that is not finite gets log density -inf and a zero derivative, and is counted.
#include <atomic>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>

#include "pool.hpp"

namespace {

using Model = const void*;
using LogDensity = int (*)(Model, bool, bool, const double*, double*, char**);
using Gradient = int (*)(Model, bool, bool, const double*, double*, double*, char**);
using Hvp = int (*)(Model, bool, bool, const double*, const double*, double*, double*, char**);
using FreeError = void (*)(char*);

constexpr double kSerialNs = 30e3;  // a job cheaper than this is not worth another thread
constexpr double kShareNs = 10e3;   // what one share of a job should cost: small beside a job, large beside a lock

thread_local std::string last_message;
std::mutex unsafe_library;  // held while a library that is not thread-safe runs, whoever calls it

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

bool all_finite(const double* x, long n) {
  constexpr std::uint64_t exponent = 0x7ff0000000000000ULL;  // all ones in an infinity or a NaN
  bool finite = true;
  for (long i = 0; i < n; ++i) {
    std::uint64_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    finite &= (bits & exponent) != exponent;
  }
  return finite;
}

const char* describe(double value, const char* derivative) {
  if (std::isnan(value)) return "the log density is NaN";
  if (std::isinf(value)) return value > 0 ? "the log density is +inf" : "the log density is -inf";
  return derivative;
}

// The failure policy for one point. `derivative` has n numbers: none, a gradient or a Hessian-vector product.
void settle(const Evaluator& e, Failures& failures, long point, int code, char* error, double* value,
            double* derivative, long n, const char* derivative_name) {
  if (code == 0 && std::isfinite(*value) && all_finite(derivative, n)) return;
  const bool raised = code != 0;
  const char* stan_text = error != nullptr ? error : "the log density could not be evaluated";
  failures.record(point, raised ? stan_text : describe(*value, derivative_name));
  if (error != nullptr) e.free_error(error);
  *value = -std::numeric_limits<double>::infinity();
  std::fill(derivative, derivative + n, 0.0);
}

// Runs at(point) for every point, on as many threads as the running estimate of its cost deserves.
template <class At>
void for_points(Evaluator& e, Kind kind, long n, const At& at) {
  using Clock = std::chrono::steady_clock;
  std::unique_lock<std::mutex> lock(unsafe_library, std::defer_lock);
  if (!e.thread_safe) lock.lock();
  const std::thread::id caller = std::this_thread::get_id();
  double spent_ns = 0.0;
  long timed = 0;
  auto body = [&](long begin, long end) {
    const bool mine = std::this_thread::get_id() == caller;
    const auto start = Clock::now();
    for (long i = begin; i < end; ++i) at(i);
    if (!mine) return;
    spent_ns += std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    timed += end - begin;
  };
  long first = 0;
  const double known = e.point_ns[kind].load(std::memory_order_relaxed);
  double cost = known;
  if (known == 0.0 && n > 1) {  // nothing known yet: one point tells
    body(0, 1);
    cost = spent_ns;
    first = 1;
  }
  auto rest = [&](long begin, long end) { body(first + begin, first + end); };
  const long left = n - first;
  if (e.threads < 2 || !e.thread_safe || cost * left < kSerialNs) {
    rest(0, left);
  } else {
    const long fair = (left + e.threads - 1) / e.threads;
    const long grain = std::clamp(static_cast<long>(kShareNs / cost), 1L, fair);
    dais::Pool::shared().run(left, grain, e.threads, rest);
  }
  if (timed == 0) return;
  const double measured = spent_ns / timed;
  e.point_ns[kind].store(known == 0.0 ? measured : 0.8 * known + 0.2 * measured, std::memory_order_relaxed);
}

}  // namespace

extern "C" {

void* dais_evaluator_new(Model model, LogDensity log_density, Gradient gradient, Hvp hvp, FreeError free_error,
                         long dim, int propto, int thread_safe, int threads) {
  return new Evaluator{model, log_density, gradient, hvp, free_error, dim, propto != 0, thread_safe != 0, threads};
}

void dais_evaluator_free(void* evaluator) { delete static_cast<Evaluator*>(evaluator); }

// Why the first point of the calling thread's last batch with failures failed.
const char* dais_last_message() { return last_message.c_str(); }

// z (n, dim) -> value (n). Returns the number of failed points, as do the two functions below.
long dais_log_density(void* evaluator, long n, const double* z, double* value) {
  Evaluator& e = *static_cast<Evaluator*>(evaluator);
  Failures failures;
  for_points(e, kLogDensity, n, [&](long i) {
    char* error = nullptr;
    const int code = e.log_density(e.model, e.propto, true, z + i * e.dim, value + i, &error);
    settle(e, failures, i, code, error, value + i, nullptr, 0, "");
  });
  return failures.report();
}

// z (n, dim) -> value (n), gradient (n, dim).
long dais_gradient(void* evaluator, long n, const double* z, double* value, double* gradient) {
  Evaluator& e = *static_cast<Evaluator*>(evaluator);
  Failures failures;
  for_points(e, kGradient, n, [&](long i) {
    char* error = nullptr;
    double* g = gradient + i * e.dim;
    const int code = e.gradient(e.model, e.propto, true, z + i * e.dim, value + i, g, &error);
    settle(e, failures, i, code, error, value + i, g, e.dim, "the gradient is not finite");
  });
  return failures.report();
}

// z (n, dim), v (n, dim) -> product (n, dim).
long dais_hvp(void* evaluator, long n, const double* z, const double* v, double* product) {
  Evaluator& e = *static_cast<Evaluator*>(evaluator);
  Failures failures;
  for_points(e, kHvp, n, [&](long i) {
    char* error = nullptr;
    double value = 0.0;
    double* p = product + i * e.dim;
    const int code = e.hvp(e.model, e.propto, true, z + i * e.dim, v + i * e.dim, &value, p, &error);
    settle(e, failures, i, code, error, &value, p, e.dim, "the Hessian-vector product is not finite");
  });
  return failures.report();
}

// The plainest loop over the model's own function: what benchmarks measure dais_gradient against.
void dais_plain_loop(void* evaluator, long n, const double* z, double* value, double* gradient) {
  const Evaluator& e = *static_cast<Evaluator*>(evaluator);
  char* error = nullptr;
  for (long i = 0; i < n; ++i)
    e.gradient(e.model, e.propto, true, z + i * e.dim, value + i, gradient + i * e.dim, &error);
}

}  // extern "C"
