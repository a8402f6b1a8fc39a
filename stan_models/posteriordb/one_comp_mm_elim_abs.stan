// Why it is here: a stiff differential equation and very heavy posterior tails.
functions {
  // First-order absorption of the dose D into the volume V, saturating elimination.
  vector concentration(real t, vector C, real k_a, real K_m, real V_m, real D, real V) {
    return [k_a * exp(-k_a * t) * D / V - V_m * C[1] / (V * (K_m + C[1]))]';
  }
}
data {
  real t0;
  real<lower=0> D;
  real<lower=0> V;
  int<lower=1> N_t;
  array[N_t] real times;
  array[N_t] real<lower=0> C_hat;
}
parameters {
  real<lower=0> k_a;
  real<lower=0> K_m;
  real<lower=0> V_m;
  real<lower=0> sigma;
}
model {
  array[N_t] vector[1] C = ode_bdf(concentration, [0]', t0, times, k_a, K_m, V_m, D, V);
  k_a ~ cauchy(0, 1);
  K_m ~ cauchy(0, 1);
  V_m ~ cauchy(0, 1);
  sigma ~ cauchy(0, 1);
  for (n in 1:N_t) {
    C_hat[n] ~ lognormal(log(C[n, 1]), sigma);
  }
}
