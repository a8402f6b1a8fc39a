// Why it is here: binomial counts of 12 hospitals with a varying logit and a vague prior on its variance.
data {
  int<lower=0> N;
  array[N] int<lower=0> n;
  array[N] int<lower=0> r;
}
parameters {
  real mu;
  real<lower=0> sigmasq;
  vector[N] b;
}
model {
  mu ~ normal(0, 1000);
  sigmasq ~ inv_gamma(0.001, 0.001);
  b ~ normal(mu, sqrt(sigmasq));
  r ~ binomial_logit(n, b);
}
