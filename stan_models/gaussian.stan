// Why it is here: any mean and covariance, so that every method's exact answer is known. log Z = 0.
data {
  int<lower=1> D;
  vector[D] m;
  cov_matrix[D] S;
}
transformed data {
  cholesky_factor_cov[D] L = cholesky_decompose(S);
}
parameters {
  vector[D] x;
}
model {
  target += multi_normal_cholesky_lpdf(x | m, L);
}
