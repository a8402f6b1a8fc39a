// Why it is here: the interaction model centred at conventional values.
data {
  int<lower=1> N;
  vector[N] kid_score;
  vector[N] mom_hs;
  vector[N] mom_iq;
}
transformed data {
  vector[N] hs = mom_hs - 0.5;
  vector[N] iq = mom_iq - 100;
}
parameters {
  vector[4] beta;
  real<lower=0> sigma;
}
model {
  kid_score ~ normal(beta[1] + beta[2] * hs + beta[3] * iq + beta[4] * (hs .* iq), sigma);
}
