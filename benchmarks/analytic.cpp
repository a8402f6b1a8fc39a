// The densities of analytic.py behind BridgeStan's C functions, so that the native kernels run them as they run
// a Stan program.
#include <cmath>
#include <vector>

namespace {

struct Density {
  virtual ~Density() = default;
  // Returns the log density at z and writes its gradient.
  virtual double gradient(const double* z, double* out) const = 0;
  // Writes the Hessian at z times v.
  virtual void product(const double* z, const double* v, double* out) const = 0;
  long dim;
};

// constant - 1/2 (z - mean)' precision (z - mean)
struct Gaussian : Density {
  std::vector<double> mean, precision;
  double constant;

  // out = -precision v, column by column: the loop over rows vectorises without reordering a sum.
  void pull_back(const double* v, double* out) const {
    for (long i = 0; i < dim; ++i) out[i] = 0.0;
    for (long j = 0; j < dim; ++j) {
      const double* column = precision.data() + j * dim;
      for (long i = 0; i < dim; ++i) out[i] -= column[i] * v[j];
    }
  }
  double gradient(const double* z, double* out) const override {
    thread_local std::vector<double> centred;
    centred.resize(dim);
    for (long i = 0; i < dim; ++i) centred[i] = z[i] - mean[i];
    pull_back(centred.data(), out);
    double value = 0.0;
    for (long i = 0; i < dim; ++i) value += centred[i] * out[i];
    return constant + 0.5 * value;
  }
  void product(const double*, const double* v, double* out) const override { pull_back(v, out); }
};

// 1/2 N(z; -centre, sd^2 I) + 1/2 N(z; 1 - centre, sd^2 I)
struct Bimodal : Density {
  double centre, precision;

  // Log odds of the mode at 1.
  double logit(const double* z) const {
    double sum = 0.0;
    for (long i = 0; i < dim; ++i) sum += z[i] + centre - 0.5;
    return precision * sum;
  }
  double gradient(const double* z, double* out) const override {
    const double odds = logit(z), share = 1.0 / (1.0 + std::exp(-odds));
    double squared = 0.0;
    for (long i = 0; i < dim; ++i) {
      const double x = z[i] + centre;
      squared += x * x;
      out[i] = precision * (share - x);
    }
    const double log_one_plus = odds > 0.0 ? odds + std::log1p(std::exp(-odds)) : std::log1p(std::exp(odds));
    const double constant = 0.5 * dim * std::log(precision / (2.0 * M_PI)) + std::log(0.5);
    return constant - 0.5 * precision * squared + log_one_plus;
  }
  void product(const double* z, const double* v, double* out) const override {
    const double share = 1.0 / (1.0 + std::exp(-logit(z)));
    double sum = 0.0;
    for (long i = 0; i < dim; ++i) sum += v[i];
    const double common = precision * precision * share * (1.0 - share) * sum;
    for (long i = 0; i < dim; ++i) out[i] = common - precision * v[i];
  }
};

}  // namespace

extern "C" {

void* gaussian_new(long dim, double constant, const double* mean, const double* precision) {
  auto* density = new Gaussian;
  density->dim = dim;
  density->constant = constant;
  density->mean.assign(mean, mean + dim);
  density->precision.assign(precision, precision + dim * dim);
  return static_cast<Density*>(density);
}

void* bimodal_new(long dim, double centre, double sd) {
  auto* density = new Bimodal;
  density->dim = dim;
  density->centre = centre;
  density->precision = 1.0 / (sd * sd);
  return static_cast<Density*>(density);
}

void density_free(void* density) { delete static_cast<Density*>(density); }

int bs_log_density(const void* density, bool, bool, const double* z, double* value, char**) {
  thread_local std::vector<double> gradient;
  const auto* d = static_cast<const Density*>(density);
  gradient.resize(d->dim);
  *value = d->gradient(z, gradient.data());
  return 0;
}

int bs_log_density_gradient(const void* density, bool, bool, const double* z, double* value, double* gradient,
                            char**) {
  *value = static_cast<const Density*>(density)->gradient(z, gradient);
  return 0;
}

int bs_log_density_hessian_vector_product(const void* density, bool, bool, const double* z, const double* v,
                                          double* value, double* product, char**) {
  *value = 0.0;  // only its being finite is looked at
  static_cast<const Density*>(density)->product(z, v, product);
  return 0;
}

void bs_free_error_msg(char*) {}

}  // extern "C"
