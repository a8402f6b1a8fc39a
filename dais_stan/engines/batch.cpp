// Evaluates a batch of points through a BridgeStan library's C functions on the shared thread pool.
#include <chrono>

#include "evaluator.hpp"
#include "pool.hpp"

using dais::Evaluator;
using dais::Failures;
using dais::Kind;

namespace {

// Runs at(point) for every point, on as many threads as the running estimate of its cost deserves.
template <class At>
void for_points(Evaluator& e, Kind kind, long n, const At& at) {
  using Clock = std::chrono::steady_clock;
  std::unique_lock<std::mutex> lock(dais::unsafe_library, std::defer_lock);
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
  if (e.threads < 2 || !e.thread_safe || cost * left < dais::kSerialNs) {
    rest(0, left);
  } else {
    const long fair = (left + e.threads - 1) / e.threads;
    const long grain = std::clamp(static_cast<long>(dais::kShareNs / cost), 1L, fair);
    dais::Pool::shared().run(left, grain, e.threads, rest);
  }
  if (timed == 0) return;
  const double measured = spent_ns / timed;
  e.point_ns[kind].store(known == 0.0 ? measured : 0.8 * known + 0.2 * measured, std::memory_order_relaxed);
}

}  // namespace

extern "C" {

void* dais_evaluator_new(dais::Model model, dais::LogDensity log_density, dais::Gradient gradient, dais::Hvp hvp,
                         dais::FreeError free_error, long dim, int propto, int thread_safe, int threads) {
  return new Evaluator{model, log_density, gradient, hvp, free_error, dim, propto != 0, thread_safe != 0, threads};
}

void dais_evaluator_free(void* evaluator) { delete static_cast<Evaluator*>(evaluator); }

// Why the first point of the calling thread's last batch with failures failed.
const char* dais_last_message() { return dais::last_message.c_str(); }

// z (n, dim) -> value (n). Returns the number of failed points, as do the two functions below.
long dais_log_density(void* evaluator, long n, const double* z, double* value) {
  Evaluator& e = *static_cast<Evaluator*>(evaluator);
  Failures failures;
  for_points(e, dais::kLogDensity, n, [&](long i) {
    char* error = nullptr;
    const int code = e.log_density(e.model, e.propto, true, z + i * e.dim, value + i, &error);
    dais::settle(e, failures, i, code, error, value + i, nullptr, 0, "");
  });
  return failures.report();
}

// z (n, dim) -> value (n), gradient (n, dim).
long dais_gradient(void* evaluator, long n, const double* z, double* value, double* gradient) {
  Evaluator& e = *static_cast<Evaluator*>(evaluator);
  Failures failures;
  for_points(e, dais::kGradient, n, [&](long i) {
    value[i] = dais::evaluate_gradient(e, failures, i, z + i * e.dim, gradient + i * e.dim);
  });
  return failures.report();
}

// z (n, dim), v (n, dim) -> product (n, dim).
long dais_hvp(void* evaluator, long n, const double* z, const double* v, double* product) {
  Evaluator& e = *static_cast<Evaluator*>(evaluator);
  Failures failures;
  for_points(e, dais::kHvp, n, [&](long i) {
    dais::evaluate_hvp(e, failures, i, z + i * e.dim, v + i * e.dim, product + i * e.dim);
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
