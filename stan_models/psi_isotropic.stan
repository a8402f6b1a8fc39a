// Why it is here: psi(mu, omega) of spherical Gaussian components N(mu, sigma^2 I), omega = log sigma, for any target.
// Lange et al. (2022), equation 10; log|F| = -2 D omega + constant. See psi_meanfield.stan for the data.
functions {
  int target_open(array[] int description);
  // The mean of the target's log density over the points mu + sigma * nodes[, m].
  real target_log_density(int handle, vector mu, real sigma, matrix nodes);
}
data {
  int<lower=1> D;
  int<lower=1> M;
  matrix[D, M] nodes;
  real<lower=1> lambda;
  real omega_min;
  real omega_max;
  int<lower=1> B;
  array[B] int<lower=1, upper=255> description;
}
transformed data {
  int handle = target_open(description);
}
parameters {
  vector[D] mu;
  real omega;
}
model {
  target += (lambda - 1) * D * omega
            + lambda * target_log_density(handle, mu, exp(omega), nodes);
  if (omega < omega_min) target += omega - omega_min;
  if (omega > omega_max) target += omega_max - omega;
}
