// Why it is here: mean and log scale are two Hilbert-space Gaussian processes: 66 dimensions, funnels.
functions {
  // Square root of the spectral density of a squared-exponential kernel in one dimension.
  vector root_spectral_density(vector frequency, real sd, real length) {
    return sd * sqrt(sqrt(2 * pi()) * length) * exp(-0.25 * square(length * frequency));
  }
}
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=1> NBgp_1;
  matrix[N, NBgp_1] Xgp_1;
  array[NBgp_1] vector[1] slambda_1;
  int<lower=1> NBgp_sigma_1;
  matrix[N, NBgp_sigma_1] Xgp_sigma_1;
  array[NBgp_sigma_1] vector[1] slambda_sigma_1;
}
transformed data {
  vector[NBgp_1] frequency = to_vector(slambda_1[, 1]);
  vector[NBgp_sigma_1] frequency_sigma = to_vector(slambda_sigma_1[, 1]);
}
parameters {
  real Intercept;
  real<lower=0> sdgp_1;
  real<lower=0> lscale_1;
  vector[NBgp_1] zgp_1;
  real Intercept_sigma;
  real<lower=0> sdgp_sigma_1;
  real<lower=0> lscale_sigma_1;
  vector[NBgp_sigma_1] zgp_sigma_1;
}
model {
  vector[NBgp_1] weight = root_spectral_density(frequency, sdgp_1, lscale_1) .* zgp_1;
  vector[NBgp_sigma_1] weight_sigma
    = root_spectral_density(frequency_sigma, sdgp_sigma_1, lscale_sigma_1) .* zgp_sigma_1;
  Intercept ~ student_t(3, -13, 36);
  Intercept_sigma ~ student_t(3, 0, 10);
  sdgp_1 ~ student_t(3, 0, 36);
  sdgp_sigma_1 ~ student_t(3, 0, 36);
  lscale_1 ~ inv_gamma(1.124909, 0.0177);
  lscale_sigma_1 ~ inv_gamma(1.124909, 0.0177);
  zgp_1 ~ std_normal();
  zgp_sigma_1 ~ std_normal();
  Y ~ normal(Intercept + Xgp_1 * weight, exp(Intercept_sigma + Xgp_sigma_1 * weight_sigma));
}
