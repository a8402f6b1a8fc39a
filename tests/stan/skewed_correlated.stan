// Why it is here: skewed, correlated and constrained, so that a sign, an index or a Jacobian cannot be wrong
// unseen; its closed form is in test_target.py. The constants of gamma and normal matter.
data {
  real<lower=0> shape;
  real<lower=0> rate;
}
parameters {
  real<lower=0> scale;
  vector[2] x;
}
model {
  scale ~ gamma(shape, rate);
  x[1] ~ normal(0, 1);
  x[2] ~ normal(2 * x[1], scale);
}
