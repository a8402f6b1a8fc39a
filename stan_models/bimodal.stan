// Why it is here: two modes of equal mass, of which reverse-KL methods find one; log Z = 0.
data {
  int<lower=1> D;
}
parameters {
  vector[D] z;
}
model {
  target += log_mix(0.5, normal_lpdf(z | 0, 0.25), normal_lpdf(z | 1, 0.25));
}
