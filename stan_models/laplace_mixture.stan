// Why it is here: one dimension, two modes, kinks and heavy tails, with exact draws. log Z = 0.
parameters {
  real x;
}
model {
  target += log_mix(0.4, double_exponential_lpdf(x | -1.5, 0.75), double_exponential_lpdf(x | 1.5, 0.75));
}
