// Why it is here: an affine transform that depends on another parameter (a non-centred form). log Z = 0.
parameters {
  real<lower=0> scale;
  vector<offset=3, multiplier=scale>[2] shifted;
}
model {
  target += exponential_lpdf(scale | 1);
  target += normal_lpdf(shifted | 3, scale);
}
