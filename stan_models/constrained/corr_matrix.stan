// Why it is here: a correlation matrix; LKJ with shape 1.5. log Z = 0.
parameters {
  corr_matrix[3] correlation;
}
model {
  target += lkj_corr_lpdf(correlation | 1.5);
}
