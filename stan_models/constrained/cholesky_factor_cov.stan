// Why it is here: the Cholesky factor of a covariance; L L' is Wishart(5, S). The last two terms are the
// Jacobian of L -> L L', 2^K prod_k L_kk^(K - k + 1). log Z = 0.
transformed data {
  matrix[2, 2] S = [[0.5, 0.1], [0.1, 0.3]];
}
parameters {
  cholesky_factor_cov[2] cov_factor;
}
model {
  target += wishart_lpdf(multiply_lower_tri_self_transpose(cov_factor) | 5, S);
  target += 2 * log(2) + 2 * log(cov_factor[1, 1]) + log(cov_factor[2, 2]);
}
