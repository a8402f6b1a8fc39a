// Why it is here: an ordered vector; the order statistics of three standard normals. log Z = 0.
parameters {
  ordered[3] increasing;
}
model {
  target += std_normal_lpdf(increasing) + log(6);
}
