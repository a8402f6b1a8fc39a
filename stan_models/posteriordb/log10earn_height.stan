// Why it is here: one predictor for a decimal logarithm; almost collinear.
data {
  int<lower=1> N;
  vector[N] earn;
  vector[N] height;
}
transformed data {
  vector[N] log10_earn = log10(earn);
}
parameters {
  vector[2] beta;
  real<lower=0> sigma;
}
model {
  log10_earn ~ normal(beta[1] + beta[2] * height, sigma);
}
