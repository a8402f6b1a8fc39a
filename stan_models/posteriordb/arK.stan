// Why it is here: an autoregression of order K.
data {
  int<lower=0> K;
  int<lower=K> T;
  vector[T] y;
}
transformed data {
  matrix[T - K, K] lagged; // column k holds y_{t-k} for t = K+1 ... T
  for (k in 1:K) {
    lagged[, k] = y[K + 1 - k:T - k];
  }
}
parameters {
  real alpha;
  vector[K] beta;
  real<lower=0> sigma;
}
model {
  alpha ~ normal(0, 10);
  beta ~ normal(0, 10);
  sigma ~ cauchy(0, 2.5);
  y[K + 1:T] ~ normal(alpha + lagged * beta, sigma);
}
