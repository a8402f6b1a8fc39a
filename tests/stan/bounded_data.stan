// Why it is here: data of each type and bound, to be given wrongly.
data {
  int<lower=0> N;
  array[N] int<lower=0, upper=10> y;
  vector[N] x;
  matrix[N, 2] X;
  real<lower=0> scale;
}
parameters {
  real mu;
}
model {
  mu ~ normal(sum(x) + sum(X) + sum(y), scale);
}
