// Why it is here: every constrained type of this folder in one program, so that one compile tests them all;
// the density is the product of the others. log Z = 0.
transformed data {
  matrix[2, 2] wishart_scale = [[0.5, 0.1], [0.1, 0.3]];
  matrix[2, 2] inv_wishart_scale = [[2, 0.5], [0.5, 1]];
}
parameters {
  real<lower=1.5> above;
  matrix<upper=-0.5>[2, 3] below;
  array[2] real<lower=-1, upper=3> between;
  real<lower=0> scale;
  vector<offset=3, multiplier=scale>[2] shifted;
  ordered[3] increasing;
  positive_ordered[3] increasing_positive;
  simplex[4] share;
  unit_vector[3] direction;
  cholesky_factor_corr[3] corr_factor;
  corr_matrix[3] correlation;
  cholesky_factor_cov[2] cov_factor;
  cov_matrix[2] covariance;
}
model {
  target += gamma_lpdf(above - 1.5 | 2.5, 2);
  target += lognormal_lpdf(to_vector(-0.5 - below) | 0, 0.5);
  for (x in between) {
    target += beta_lpdf((x + 1) / 4 | 2, 3) - log(4);
  }
  target += exponential_lpdf(scale | 1);
  target += normal_lpdf(shifted | 3, scale);
  target += std_normal_lpdf(increasing) + log(6);
  target += exponential_lpdf(increasing_positive | 1) + log(6);
  target += dirichlet_lpdf(share | [1.5, 2, 3, 0.8]');
  target += 2 * dot_product([2.0 / 3, -1.0 / 3, 2.0 / 3], direction) - log(sinh(2) / 2) - 1.5 * log(2 * pi());
  target += lkj_corr_cholesky_lpdf(corr_factor | 2);
  target += lkj_corr_lpdf(correlation | 1.5);
  target += wishart_lpdf(multiply_lower_tri_self_transpose(cov_factor) | 5, wishart_scale);
  target += 2 * log(2) + 2 * log(cov_factor[1, 1]) + log(cov_factor[2, 2]);
  target += inv_wishart_lpdf(covariance | 5, inv_wishart_scale);
}
