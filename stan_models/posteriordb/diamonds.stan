// Why it is here: twenty-four highly correlated predictors, centred; the first column of X is the intercept.
data {
  int<lower=1> N;
  vector[N] Y;
  int<lower=2> K;
  matrix[N, K] X;
}
transformed data {
  matrix[N, K - 1] Xc;
  for (k in 2:K) {
    Xc[, k - 1] = X[, k] - mean(X[, k]);
  }
}
parameters {
  vector[K - 1] b;
  real Intercept;
  real<lower=0> sigma;
}
model {
  b ~ std_normal();
  Intercept ~ student_t(3, 8, 10);
  sigma ~ student_t(3, 0, 10);
  Y ~ normal_id_glm(Xc, Intercept, b, sigma);
}
