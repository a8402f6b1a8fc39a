// Why it is here: an upper bound, on the entries of a matrix; -0.5 - x is lognormal(0, 0.5). log Z = 0.
parameters {
  matrix<upper=-0.5>[2, 3] below;
}
model {
  target += lognormal_lpdf(to_vector(-0.5 - below) | 0, 0.5);
}
