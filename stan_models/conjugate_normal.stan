// Why it is here: a Gaussian posterior with a known evidence, log N(y; m0, s0^2 1 1' + sigma^2 I).
data {
  int<lower=0> N;
  vector[N] y;
  real m0;
  real<lower=0> s0;
  real<lower=0> sigma;
}
parameters {
  real mu;
}
model {
  target += normal_lpdf(mu | m0, s0);
  target += normal_lpdf(y | mu, sigma);
}
