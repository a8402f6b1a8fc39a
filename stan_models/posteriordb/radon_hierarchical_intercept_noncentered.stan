// Why it is here: 85 counties, most with few houses, in noncentered form; 90 dimensions.
data {
  int<lower=1> N;
  int<lower=1> J;
  array[N] int<lower=1, upper=J> county_idx;
  vector[N] log_uppm;
  vector[N] floor_measure;
  vector[N] log_radon;
}
parameters {
  vector[J] alpha_raw;
  vector[2] beta;
  real mu_alpha;
  real<lower=0> sigma_alpha;
  real<lower=0> sigma_y;
}
transformed parameters {
  vector[J] alpha = mu_alpha + sigma_alpha * alpha_raw;
}
model {
  mu_alpha ~ normal(0, 10);
  sigma_alpha ~ std_normal();
  beta ~ normal(0, 10);
  sigma_y ~ std_normal();
  alpha_raw ~ std_normal();
  log_radon ~ normal(alpha[county_idx] + beta[1] * log_uppm + beta[2] * floor_measure, sigma_y);
}
