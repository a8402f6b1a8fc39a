// Why it is here: a positive ordered vector; the order statistics of three exponentials. log Z = 0.
parameters {
  positive_ordered[3] increasing_positive;
}
model {
  target += exponential_lpdf(increasing_positive | 1) + log(6);
}
