// Why it is here: six raw predictors and 46 rows; coefficients of very different scale.
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
  matrix[N, 6] X = [diam1', diam2', canopy_height', total_height', density', group']';
}
parameters {
  vector[7] beta;
  real<lower=0> sigma;
}
model {
  weight ~ normal(beta[1] + X * beta[2:7], sigma);
}
