// Why it is here: psi(mu, omega), the density from which infmix draws diagonal Gaussian components, for any target.
// Lange et al. (2022), equation 10: log psi = log|F| / 2 - lambda KL(q || p), where F is the Fisher information of
// q = N(mu, diag(sigma^2)) in (mu, omega), omega = log sigma: log|F| = -2 sum(omega) + constant.
functions {
  // Both are defined in infmix/target_bridge.hpp.
  int target_open(array[] int description);
  // The mean of the target's log density over the points mu + sigma .* nodes[, m].
  real target_log_density(int handle, vector mu, vector sigma, matrix nodes);
}
data {
  int<lower=1> D;
  int<lower=1> M;
  matrix[D, M] nodes; // standard normal
  real<lower=1> lambda;
  vector[D] omega_min; // outside of these psi falls off by one nat for each unit of omega
  vector[D] omega_max;
  int<lower=1> B;
  array[B] int<lower=1, upper=255> description; // of the target: bytes
}
transformed data {
  int handle = target_open(description);
}
parameters {
  vector[D] mu;
  vector[D] omega;
}
model {
  target += (lambda - 1) * sum(omega)
            + lambda * target_log_density(handle, mu, exp(omega), nodes);
  for (i in 1 : D) {
    if (omega[i] < omega_min[i]) target += omega[i] - omega_min[i];
    if (omega[i] > omega_max[i]) target += omega_max[i] - omega[i];
  }
}
