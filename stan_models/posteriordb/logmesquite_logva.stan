// Why it is here: a log-log regression on volume, area and group.
data {
  int<lower=1> N;
  vector<lower=0>[N] weight;
  vector<lower=0>[N] diam1;
  vector<lower=0>[N] diam2;
  vector<lower=0>[N] canopy_height;
  vector[N] group;
}
transformed data {
  vector[N] log_weight = log(weight);
  matrix[N, 3] X = [log(diam1 .* diam2 .* canopy_height)', log(diam1 .* diam2)', group']';
}
parameters {
  vector[4] beta;
  real<lower=0> sigma;
}
model {
  log_weight ~ normal(beta[1] + X * beta[2:4], sigma);
}
