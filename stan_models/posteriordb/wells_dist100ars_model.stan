// Why it is here: a logistic regression with flat priors and 3,020 rows.
data {
  int<lower=0> N;
  vector[N] dist;
  vector[N] arsenic;
  array[N] int<lower=0, upper=1> switched;
}
transformed data {
  matrix[N, 2] X = [dist' / 100, arsenic']';
}
parameters {
  real alpha;
  vector[2] beta;
}
model {
  switched ~ bernoulli_logit_glm(X, alpha, beta);
}
