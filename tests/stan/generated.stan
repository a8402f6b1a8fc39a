// Why it is here: random generated quantities, and ones that cannot always be computed.
parameters {
  real x;
}
transformed parameters {
  real doubled = 2 * x;
}
model {
  x ~ std_normal();
}
generated quantities {
  real noise = normal_rng(0, 1);
  if (x > 10) {
    reject("x is too large");
  }
}
