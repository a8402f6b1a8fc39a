// Why it is here: a log-log regression on six predictors.
data {
  int<lower=1> N;
  vector<lower=0>[N] weight;
  vector<lower=0>[N] diam1;
  vector<lower=0>[N] diam2;
  vector<lower=0>[N] canopy_height;
  vector<lower=0>[N] total_height;
  vector<lower=0>[N] density;
  vector[N] group;
}
transformed data {
  vector[N] log_weight = log(weight);
  matrix[N, 6] X = [log(diam1)', log(diam2)', log(canopy_height)',
    log(total_height)', log(density)', group']';
}
parameters {
  vector[7] beta;
  real<lower=0> sigma;
}
model {
  log_weight ~ normal(beta[1] + X * beta[2:7], sigma);
}
