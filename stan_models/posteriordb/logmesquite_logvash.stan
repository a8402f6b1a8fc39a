// Why it is here: as logmesquite_logvas, without density.
data {
  int<lower=1> N;
  vector<lower=0>[N] weight;
  vector<lower=0>[N] diam1;
  vector<lower=0>[N] diam2;
  vector<lower=0>[N] canopy_height;
  vector<lower=0>[N] total_height;
  vector[N] group;
}
transformed data {
  vector[N] log_weight = log(weight);
  matrix[N, 5] X = [log(diam1 .* diam2 .* canopy_height)', log(diam1 .* diam2)', log(diam1 ./ diam2)',
    log(total_height)', group']';
}
parameters {
  vector[6] beta;
  real<lower=0> sigma;
}
model {
  log_weight ~ normal(beta[1] + X * beta[2:6], sigma);
}
