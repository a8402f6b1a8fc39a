// Why it is here: Neal's funnel; no Gaussian fits it, so diagnostics must say so. log Z = 0.
data {
  int<lower=0> D;
}
parameters {
  real v;
  vector[D] x;
}
model {
  target += normal_lpdf(v | 0, 3);
  target += normal_lpdf(x | 0, exp(v / 2));
}
