// Why it is here: a lower bound; x - 1.5 is Gamma(2.5, rate 2). log Z = 0.
parameters {
  real<lower=1.5> above;
}
model {
  target += gamma_lpdf(above - 1.5 | 2.5, 2);
}
