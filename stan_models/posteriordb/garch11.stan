// Why it is here: GARCH(1, 1): the upper bound of beta1 depends on alpha1; flat priors.
data {
  int<lower=1> T;
  vector[T] y;
  real<lower=0> sigma1;
}
parameters {
  real mu;
  real<lower=0> alpha0;
  real<lower=0, upper=1> alpha1;
  real<lower=0, upper=1 - alpha1> beta1;
}
model {
  vector[T] variance;
  variance[1] = square(sigma1);
  for (t in 2:T) {
    variance[t] = alpha0 + alpha1 * square(y[t - 1] - mu) + beta1 * variance[t - 1];
  }
  y ~ normal(mu, sqrt(variance));
}
