// Why it is here: skewed and correlated, with known moments, modes and gradient, and random generated
// quantities: what each of CmdStan's methods is held against.
data {
  real<lower=0> shape;
}
parameters {
  real<lower=0> x;
  real y;
}
model {
  x ~ gamma(shape, 2);
  y ~ normal(x, 0.5);
}
generated quantities {
  real z = normal_rng(y, 1);
}
