// Why it is here: the interaction model with standardised height.
data {
  int<lower=1> N;
  vector[N] earn;
  vector[N] height;
  vector[N] male;
}
transformed data {
  vector[N] log_earn = log(earn);
  vector[N] z_height = (height - mean(height)) / sd(height);
}
parameters {
  vector[4] beta;
  real<lower=0> sigma;
}
model {
  log_earn ~ normal(beta[1] + beta[2] * z_height + beta[3] * male + beta[4] * (z_height .* male), sigma);
}
