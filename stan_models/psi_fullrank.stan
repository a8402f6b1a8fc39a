// Why it is here: psi(mu, L) of Gaussian components N(mu, L L') with any covariance, for any target.
// Lange et al. (2022), equation 10. In the entries of mu and of the lower triangle L, log|F| / 2 is a constant less
// sum_i (1 + i) log L[i,i]: F in mu is (L L')^-1, and the Fisher information of a covariance, det(Sigma)^-(D + 1) in
// Sigma, becomes sum_i -2 i log L[i,i] in L. psi is proper for lambda > D only (L L' is then Wishart distributed
// where the target is Gaussian, with lambda - 1 degrees of freedom). See psi_meanfield.stan for the data.
functions {
  int target_open(array[] int description);
  // The mean of the target's log density over the points mu + L * nodes[, m].
  real target_log_density(int handle, vector mu, matrix L, matrix nodes);
}
data {
  int<lower=1> D;
  int<lower=1> M;
  matrix[D, M] nodes;
  real<lower=D> lambda;
  vector[D] omega_min; // of the logarithms of L's diagonal
  vector[D] omega_max;
  int<lower=1> B;
  array[B] int<lower=1, upper=255> description;
}
transformed data {
  int handle = target_open(description);
}
parameters {
  vector[D] mu;
  cholesky_factor_cov[D] L;
}
model {
  vector[D] omega = log(diagonal(L));
  target += (lambda - 1) * sum(omega) - dot_product(linspaced_vector(D, 1, D), omega)
            + lambda * target_log_density(handle, mu, L, nodes);
  for (i in 1 : D) {
    if (omega[i] < omega_min[i]) target += omega[i] - omega_min[i];
    if (omega[i] > omega_max[i]) target += omega_max[i] - omega[i];
  }
}
