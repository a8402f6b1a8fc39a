// Why it is here: the Cholesky factor of a correlation matrix; LKJ with shape 2. log Z = 0.
parameters {
  cholesky_factor_corr[3] corr_factor;
}
model {
  target += lkj_corr_cholesky_lpdf(corr_factor | 2);
}
