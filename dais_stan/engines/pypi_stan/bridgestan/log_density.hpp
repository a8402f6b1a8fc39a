// The log density of a compiled Stan program and its derivatives.
#ifndef DAIS_STAN_LOG_DENSITY_HPP
#define DAIS_STAN_LOG_DENSITY_HPP

#include <stan/math/rev/core.hpp>
#include <stan/math/prim/fun/finite_diff_stepsize.hpp>
#ifdef STAN_MODEL_FVAR_VAR
#include <stan/math/mix.hpp>
#endif
#include <stan/model/model_base.hpp>

#include <cmath>
#include <limits>
#include <ostream>

namespace bridge {

using stan::math::var;
using Eigen::VectorXd;
template <typename T>
using VectorOf = Eigen::Matrix<T, Eigen::Dynamic, 1>;

class LogDensity {
 public:
  LogDensity(const stan::model::model_base& model, bool propto, bool jacobian, std::ostream* messages)
      : model_(model), propto_(propto), jacobian_(jacobian), messages_(messages) {}

  template <typename T>
  T operator()(const VectorOf<T>& z) const {
    auto& z_ref = const_cast<VectorOf<T>&>(z);  // the model's methods do not change it
    if (propto_)
      return jacobian_ ? model_.log_prob_propto_jacobian(z_ref, messages_)
                       : model_.log_prob_propto(z_ref, messages_);
    return jacobian_ ? model_.log_prob_jacobian(z_ref, messages_) : model_.log_prob(z_ref, messages_);
  }

  // Which terms are constant is decided by their type, so dropping constants needs autodiff variables.
  double value(const VectorXd& z) const {
    if (!propto_) return (*this)(z);
    stan::math::nested_rev_autodiff nested;
    return (*this)(VectorOf<var>(z)).val();
  }

  template <typename Gradient>
  double value_and_gradient(const VectorXd& z, Gradient&& gradient) const {
    stan::math::nested_rev_autodiff nested;
    const VectorOf<var> z_var(z);
    var log_density = (*this)(z_var);
    log_density.grad();
    gradient = z_var.adj();
    return log_density.val();
  }

  VectorXd gradient(const VectorXd& z) const {
    VectorXd gradient(z.size());
    value_and_gradient(z, gradient);
    return gradient;
  }

 private:
  const stan::model::model_base& model_;
  bool propto_;
  bool jacobian_;
  std::ostream* messages_;
};

#ifdef STAN_MODEL_FVAR_VAR

inline double hessian_vector_product(const LogDensity& f, const VectorXd& z, const VectorXd& v,
                                     VectorXd& product) {
  double value;
  stan::math::hessian_times_vector(f, z, v, value, product);
  return value;
}

inline double hessian(const LogDensity& f, const VectorXd& z, VectorXd& gradient, Eigen::MatrixXd& hessian) {
  double value;
  stan::math::hessian(f, z, value, gradient, hessian);
  return value;
}

#else

// Central difference of gradients along v, with the step that Stan Math uses.
inline double hessian_vector_product(const LogDensity& f, const VectorXd& z, const VectorXd& v,
                                     VectorXd& product) {
  const double length = v.norm();
  if (length == 0) {
    product.setZero(z.size());
  } else {
    const double step = std::sqrt(std::numeric_limits<double>::epsilon()) * (1 + z.norm()) / length;
    product = (f.gradient(z + step * v) - f.gradient(z - step * v)) / (2 * step);
  }
  return f.value(z);
}

// Central differences of gradients along each axis, made symmetric.
inline double hessian(const LogDensity& f, const VectorXd& z, VectorXd& gradient, Eigen::MatrixXd& hessian) {
  Eigen::MatrixXd columns(z.size(), z.size());
  for (Eigen::Index i = 0; i < z.size(); ++i) {
    const double step = stan::math::finite_diff_stepsize(z(i));
    VectorXd ahead(z), behind(z);
    ahead(i) += step;
    behind(i) -= step;
    columns.col(i) = (f.gradient(ahead) - f.gradient(behind)) / (2 * step);
  }
  hessian = (columns + columns.transpose()) / 2;
  return f.value_and_gradient(z, gradient);
}

#endif

}  // namespace bridge

#endif
