// Why it is here: a hidden Markov chain that emits two normal variables in each state.
functions {
  // log p(y_1 ... y_N) of a hidden Markov chain, its states summed out by the forward recursion.
  // emission[k, n]: log density of y_n in state k; Gamma[j, k]: chance of going from j to k. The first state
  // has weight one, not a probability: the model has no term for it.
  real log_chain(matrix emission, matrix Gamma) {
    int K = rows(emission);
    vector[K] forward = emission[, 1];
    for (n in 2:cols(emission)) {
      vector[K] next;
      for (k in 1:K) {
        next[k] = log_sum_exp(forward + log(Gamma[, k])) + emission[k, n];
      }
      forward = next;
    }
    return log_sum_exp(forward);
  }
}
data {
  int<lower=1> N;
  int<lower=2, upper=2> K;
  array[N] real u;
  array[N] real v;
  matrix<lower=0>[K, K] alpha;
  real<lower=0> tau;
  real<lower=0> rho;
}
parameters {
  simplex[K] theta1;
  simplex[K] theta2;
  ordered[K] phi;
  ordered[K] lambda;
}
model {
  matrix[K, N] emission;
  for (n in 1:N) {
    for (k in 1:K) {
      emission[k, n] = normal_lpdf(u[n] | phi[k], tau) + normal_lpdf(v[n] | lambda[k], rho);
    }
  }
  theta1 ~ dirichlet(alpha[1]');
  theta2 ~ dirichlet(alpha[2]');
  phi[1] ~ normal(0, 1);
  phi[2] ~ normal(3, 1);
  lambda[1] ~ normal(0, 1);
  lambda[2] ~ normal(3, 1);
  target += log_chain(emission, [theta1', theta2']);
}
