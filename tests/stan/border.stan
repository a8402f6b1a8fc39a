// Why it is here: what has to cross the C border of an engine: every kind of type, an included file, random
// generated quantities, a rejection and print statements.
#include "border/rate.stan"
data {
  int<lower=0> N;
  vector[N] y;
}
transformed data {
  real shift = normal_rng(0, 1);
}
parameters {
  real<lower=0> s;
  simplex[3] p;
  tuple(real, vector[2]) t;
  complex z;
  array[0] vector[2] none;
}
transformed parameters {
  real s2 = square(s);
}
model {
  if (s > 100) {
    print("s is ", s);
    reject("s is too large");
  }
  s ~ exponential(rate());
  p ~ dirichlet([2, 3, 4]');
  t.1 ~ std_normal();
  t.2 ~ std_normal();
  get_real(z) ~ std_normal();
  get_imag(z) ~ std_normal();
  y ~ normal(t.1, s);
}
generated quantities {
  real drawn = normal_rng(shift, 1);
}
