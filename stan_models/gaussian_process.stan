// Why it is here: Gaussian-process regression with a fixed kernel, correlated and Gaussian, so that every
// moment and the evidence are known.
data {
  int<lower=1> N;
  array[N] real t;
  vector[N] y;
  real<lower=0> rho;
  real<lower=0> sigma;
  real<lower=0> jitter;
}
transformed data {
  matrix[N, N] L = cholesky_decompose(add_diag(gp_exp_quad_cov(t, 1.0, rho), jitter));
}
parameters {
  vector[N] z;
}
model {
  target += multi_normal_cholesky_lpdf(z | rep_vector(0, N), L);
  target += normal_lpdf(y | z, sigma);
}
