// Why it is here: the logistic regression that Zenn & Bamler (2024) fitted, for comparison with their tables.
// Their program adds the bias once for each feature and flips the sign: logit = -sum_k (w_k x_k + b).
data {
  int<lower=0> N;
  int<lower=0> K;
  matrix[N, K] X;
  array[N] int<lower=0, upper=1> y;
}
parameters {
  vector[K] w;
  real b;
}
model {
  w ~ std_normal();
  b ~ std_normal();
  y ~ bernoulli_logit_glm(X, -K * b, -w);
}
