// Why it is here: one predictor, badly scaled: standard deviations near 1e4 beside slopes near 1e2.
data {
  int<lower=1> N;
  vector[N] earn;
  vector[N] height;
}
parameters {
  vector[2] beta;
  real<lower=0> sigma;
}
model {
  earn ~ normal(beta[1] + beta[2] * height, sigma);
}
