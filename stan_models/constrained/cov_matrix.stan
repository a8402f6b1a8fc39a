// Why it is here: a covariance matrix; inverse Wishart with 5 degrees of freedom. log Z = 0.
transformed data {
  matrix[2, 2] S = [[2, 0.5], [0.5, 1]];
}
parameters {
  cov_matrix[2] covariance;
}
model {
  target += inv_wishart_lpdf(covariance | 5, S);
}
