// Annealed trajectories and their adjoint: objectives/dais.py in C++, a particle at a time, the particles
// shared out to the thread pool. The names are those of that file, which has the equations.
//
// Each particle owns a stretch of the tape and of the gradient, and the gradients are added up in the order of
// the particles, so that the result does not depend on the number of threads.
#include <vector>

#include "evaluator.hpp"
#include "pool.hpp"

using dais::Evaluator;
using dais::Failures;

extern "C" {

// What trajectories depend on; the field order is that of engines/dais.py. K transitions, D = the model's dim.
struct DaisPath {
  long transitions;
  long dense;            // 1: factor is (D, D), lower triangular; 0: (D)
  const double* mean;    // D
  const double* factor;  // D or D x D
  const double* steps;   // K x D
  const double* betas;   // K
  double retention;
  double log_constant;  // log |det factor| + D/2 log 2 pi
  long exact_hvp;       // 0: one-sided differences of gradients
};

}  // extern "C"

namespace {

enum Entry { kBefore, kMiddle, kGradient, kForce, kKicked, kEntries };  // of the tape, D numbers each

constexpr double kLeastGradientNs = 200.0;  // an estimate where none was measured yet

class Trajectory {
 public:
  Trajectory(const Evaluator& e, const DaisPath& p, long particles, const double* noise, double* tape)
      : e_(e), p_(p), dim_(e.dim), particles_(particles), noise_(noise), tape_(tape) {}

  // Numbers for one particle: the tape, the end x and its gradient, and four vectors of scratch.
  static long size(const Evaluator& e, const DaisPath& p) { return (p.transitions * kEntries + 2 + 4) * e.dim; }

  void forward(long particle, Failures& failures, double* z, double* log_f, double* log_weight) {
    double* x = end(particle);
    const double* start = noise(0, particle);
    double log_w = p_.log_constant;
    for (long j = 0; j < dim_; ++j) {
      x[j] = start[j];
      log_w += 0.5 * x[j] * x[j];
    }
    const double refresh = std::sqrt(1.0 - p_.retention * p_.retention);
    for (long k = 0; k < p_.transitions; ++k) {
      double *before = entry(particle, k, kBefore), *middle = entry(particle, k, kMiddle);
      double *force = entry(particle, k, kForce), *kicked = entry(particle, k, kKicked);
      const double* step = p_.steps + k * dim_;
      const double* fresh = noise(k + 1, particle);
      const double* last = k > 0 ? entry(particle, k - 1, kKicked) : nullptr;
      for (long j = 0; j < dim_; ++j) {
        before[j] = k > 0 ? p_.retention * last[j] + refresh * fresh[j] : fresh[j];
        middle[j] = x[j] + 0.5 * step[j] * before[j];
      }
      double* point = scratch(particle, 0);
      double* gradient = entry(particle, k, kGradient);
      to_z(middle, point);
      dais::evaluate_gradient(e_, failures, particle, point, gradient);
      pull(gradient, force);
      const double beta = p_.betas[k];
      double energy = 0.0;
      for (long j = 0; j < dim_; ++j) {
        force[j] = beta * force[j] - (1.0 - beta) * middle[j];
        kicked[j] = before[j] + step[j] * force[j];
        x[j] = middle[j] + 0.5 * step[j] * kicked[j];
        energy += before[j] * before[j] - kicked[j] * kicked[j];
      }
      log_w += 0.5 * energy;
    }
    to_z(x, z);
    *log_f = dais::evaluate_gradient(e_, failures, particle, z, end_gradient(particle));
    log_w += *log_f;
    *log_weight = std::isfinite(log_w) ? log_w : -std::numeric_limits<double>::infinity();
  }

  // The gradient of weight * log_weight at the particle's trajectory; `out` is zero before.
  void backward(long particle, double weight, Failures& failures, double* out) {
    Bars bars(out, *this);
    double *x_bar = scratch(particle, 0), *momentum_bar = scratch(particle, 1);
    double *force_bar = scratch(particle, 2), *work = scratch(particle, 3);
    const double* final_gradient = end_gradient(particle);
    for (long j = 0; j < dim_; ++j) {
      work[j] = weight * final_gradient[j];
      bars.mean[j] += work[j];
      momentum_bar[j] = 0.0;
    }
    pull(work, x_bar);
    add_outer(bars.factor, work, end(particle));
    const double fresh_share = p_.retention / std::sqrt(1.0 - p_.retention * p_.retention);
    for (long k = p_.transitions - 1; k >= 0; --k) {
      const double *before = entry(particle, k, kBefore), *middle = entry(particle, k, kMiddle);
      const double *gradient = entry(particle, k, kGradient), *force = entry(particle, k, kForce);
      const double *kicked = entry(particle, k, kKicked), *step = p_.steps + k * dim_;
      const double beta = p_.betas[k];
      double* steps_bar = bars.steps + k * dim_;
      const bool refreshed = k + 1 < p_.transitions;
      const double* fresh = refreshed ? noise(k + 2, particle) : nullptr;
      double retention_bar = 0.0;
      pull(gradient, work);
      double beta_bar = 0.0;
      for (long j = 0; j < dim_; ++j) {
        double kicked_bar = 0.5 * step[j] * x_bar[j] - weight * kicked[j];
        if (refreshed) {
          retention_bar += momentum_bar[j] * (kicked[j] - fresh_share * fresh[j]);
          kicked_bar += p_.retention * momentum_bar[j];
        }
        steps_bar[j] = 0.5 * x_bar[j] * kicked[j] + kicked_bar * force[j];
        const double bar = step[j] * kicked_bar;
        beta_bar += bar * (work[j] + middle[j]);
        momentum_bar[j] = kicked_bar + weight * before[j];
        x_bar[j] -= (1.0 - beta) * bar;
        force_bar[j] = beta * bar;
      }
      bars.betas[k] = beta_bar;
      *bars.retention += retention_bar;
      add_outer(bars.factor, gradient, force_bar);
      curve(particle, failures, middle, gradient, force_bar, work);  // force_bar becomes H L force_bar
      for (long j = 0; j < dim_; ++j) bars.mean[j] += force_bar[j];
      add_outer(bars.factor, force_bar, middle);
      pull(force_bar, work);
      for (long j = 0; j < dim_; ++j) {
        x_bar[j] += work[j];
        steps_bar[j] += 0.5 * x_bar[j] * before[j];
        momentum_bar[j] += 0.5 * step[j] * x_bar[j];
      }
    }
    for (long j = 0; j < dim_; ++j) {
      const long at = p_.dense ? j * dim_ + j : j;
      bars.factor[at] += weight / p_.factor[at];
    }
  }

  // Length of the gradient: mean, factor, steps, betas, retention.
  static long gradient_size(const Evaluator& e, const DaisPath& p) {
    return e.dim + (p.dense ? e.dim : 1) * e.dim + p.transitions * (e.dim + 1) + 1;
  }

 private:
  struct Bars {
    Bars(double* out, const Trajectory& t) : mean(out) {
      factor = mean + t.dim_;
      steps = factor + (t.p_.dense ? t.dim_ : 1) * t.dim_;
      betas = steps + t.p_.transitions * t.dim_;
      retention = betas + t.p_.transitions;
    }
    double *mean, *factor, *steps, *betas, *retention;
  };

  const double* noise(long k, long particle) const { return noise_ + (k * particles_ + particle) * dim_; }
  double* own(long particle) const { return tape_ + particle * size(e_, p_); }
  double* entry(long particle, long k, Entry which) const { return own(particle) + (k * kEntries + which) * dim_; }
  double* end(long particle) const { return own(particle) + p_.transitions * kEntries * dim_; }
  double* end_gradient(long particle) const { return end(particle) + dim_; }
  double* scratch(long particle, long which) const { return end(particle) + (2 + which) * dim_; }

  // out = factor x
  void direction(const double* x, double* out) const {
    for (long i = 0; i < dim_; ++i) {
      if (!p_.dense) {
        out[i] = p_.factor[i] * x[i];
        continue;
      }
      double sum = 0.0;
      for (long j = 0; j <= i; ++j) sum += p_.factor[i * dim_ + j] * x[j];
      out[i] = sum;
    }
  }

  void to_z(const double* x, double* z) const {
    direction(x, z);
    for (long j = 0; j < dim_; ++j) z[j] += p_.mean[j];
  }

  // out = factor^T gradient
  void pull(const double* gradient, double* out) const {
    if (!p_.dense) {
      for (long j = 0; j < dim_; ++j) out[j] = p_.factor[j] * gradient[j];
      return;
    }
    std::fill(out, out + dim_, 0.0);
    for (long i = 0; i < dim_; ++i)
      for (long j = 0; j <= i; ++j) out[j] += p_.factor[i * dim_ + j] * gradient[i];
  }

  // factor_bar += the factor's part of z_bar x^T
  void add_outer(double* factor_bar, const double* z_bar, const double* x) const {
    for (long i = 0; i < dim_; ++i) {
      if (!p_.dense) {
        factor_bar[i] += z_bar[i] * x[i];
        continue;
      }
      for (long j = 0; j <= i; ++j) factor_bar[i * dim_ + j] += z_bar[i] * x[j];
    }
  }

  // v, a direction in x, becomes the Hessian at z(middle) times factor v; `work` is scratch.
  void curve(long particle, Failures& failures, const double* middle, const double* gradient, double* v,
             double* work) {
    double* point = curve_scratch(dim_);
    double* ahead = point + dim_;
    to_z(middle, point);
    direction(v, work);
    if (p_.exact_hvp) {
      dais::evaluate_hvp(e_, failures, particle, point, work, v);
      return;
    }
    double length = 0.0, norm = 0.0;
    for (long j = 0; j < dim_; ++j) {
      length += work[j] * work[j];
      norm += point[j] * point[j];
    }
    length = std::sqrt(length);
    const double reach = std::sqrt(std::numeric_limits<double>::epsilon()) * (1.0 + std::sqrt(norm));
    const double r = reach / (length > 0.0 ? length : 1.0);
    for (long j = 0; j < dim_; ++j) point[j] += r * work[j];
    const double value = dais::evaluate_gradient(e_, failures, particle, point, ahead);
    const bool usable = std::isfinite(value);
    for (long j = 0; j < dim_; ++j) v[j] = usable ? (ahead[j] - gradient[j]) / r : 0.0;
  }

  // Two vectors of the running thread's own.
  static double* curve_scratch(long dim) {
    thread_local std::vector<double> own;
    if (static_cast<long>(own.size()) < 2 * dim) own.resize(2 * dim);
    return own.data();
  }

  const Evaluator& e_;
  const DaisPath& p_;
  const long dim_, particles_;
  const double* noise_;
  double* tape_;
};

// Runs at(particle) for all particles, on the pool where that is worth it.
template <class At>
void for_particles(Evaluator& e, const DaisPath& p, long particles, const At& at) {
  std::unique_lock<std::mutex> lock(dais::unsafe_library, std::defer_lock);
  if (!e.thread_safe) lock.lock();
  auto body = [&](long begin, long end) {
    for (long i = begin; i < end; ++i) at(i);
  };
  const double one_ns = std::max(kLeastGradientNs, e.point_ns[dais::kGradient].load(std::memory_order_relaxed));
  const double particle_ns = one_ns * (p.transitions + 1);
  if (!e.thread_safe || e.threads < 2 || particle_ns * particles < dais::kSerialNs) {
    body(0, particles);
    return;
  }
  const long fair = (particles + e.threads - 1) / e.threads;
  const long grain = std::clamp(static_cast<long>(dais::kShareNs / particle_ns), 1L, fair);
  dais::Pool::shared().run(particles, grain, e.threads, body);
}

}  // namespace

extern "C" {

// Numbers that the tape of all particles needs, and the length of the gradient.
long dais_tape_size(void* evaluator, const DaisPath* path, long particles) {
  return particles * Trajectory::size(*static_cast<Evaluator*>(evaluator), *path);
}

long dais_gradient_size(void* evaluator, const DaisPath* path) {
  return Trajectory::gradient_size(*static_cast<Evaluator*>(evaluator), *path);
}

// Runs N particles. noise (K + 1, N, D) -> tape, z (N, D), log_f (N), log_weight (N). Returns how many
// evaluations failed.
long dais_forward(void* evaluator, const DaisPath* path, long particles, const double* noise, double* tape,
                  double* z, double* log_f, double* log_weight) {
  Evaluator& e = *static_cast<Evaluator*>(evaluator);
  Failures failures;
  Trajectory trajectory(e, *path, particles, noise, tape);
  for_particles(e, *path, particles, [&](long i) {
    trajectory.forward(i, failures, z + i * e.dim, log_f + i, log_weight + i);
  });
  return failures.report();
}

// From the tape of dais_forward, the gradient of sum(weight * log_weight), added up in `gradient`. `parts` is
// scratch of N gradients. A particle of weight zero takes no part. Returns how many evaluations failed.
long dais_backward(void* evaluator, const DaisPath* path, long particles, const double* noise, double* tape,
                   const double* weight, double* parts, double* gradient) {
  Evaluator& e = *static_cast<Evaluator*>(evaluator);
  Failures failures;
  Trajectory trajectory(e, *path, particles, noise, tape);
  const long size = Trajectory::gradient_size(e, *path);
  for_particles(e, *path, particles, [&](long i) {
    double* part = parts + i * size;
    std::fill(part, part + size, 0.0);
    if (weight[i] > 0.0) trajectory.backward(i, weight[i], failures, part);
  });
  std::fill(gradient, gradient + size, 0.0);
  for (long i = 0; i < particles; ++i)
    for (long j = 0; j < size; ++j) gradient[j] += parts[i * size + j];
  return failures.report();
}

}  // extern "C"
