// Why it is here: a cholera epidemic: four differential equations whose states span orders of magnitude.
functions {
  // Susceptible, infected, recovered people; bacteria in the water.
  vector epidemic(real t, vector y, real beta, real kappa, real gamma, real xi, real delta) {
    real infections = beta * y[1] * y[4] / (kappa + y[4]);
    return [-infections, infections - gamma * y[2], gamma * y[2], xi * y[2] - delta * y[4]]';
  }
}
data {
  int<lower=1> N_t;
  array[N_t] real t;
  array[4] real y0;
  array[N_t] int stoi_hat;
  array[N_t] real B_hat;
}
transformed data {
  real kappa = 1e6;
}
parameters {
  real<lower=0> beta;
  real<lower=0> gamma;
  real<lower=0> xi;
  real<lower=0> delta;
}
model {
  array[N_t] vector[4] y = ode_rk45_tol(epidemic, to_vector(y0), 0, t, 1e-6, 1e-6, 1000,
                                        beta, kappa, gamma, xi, delta);
  beta ~ cauchy(0, 2.5);
  gamma ~ cauchy(0, 1);
  xi ~ cauchy(0, 25);
  delta ~ cauchy(0, 1);
  stoi_hat[1] ~ poisson(y0[1] - y[1, 1]);
  for (n in 2:N_t) {
    stoi_hat[n] ~ poisson(y[n - 1, 1] - y[n, 1]);
  }
  B_hat ~ lognormal(log(to_vector(y[, 4])), 0.15);
}
