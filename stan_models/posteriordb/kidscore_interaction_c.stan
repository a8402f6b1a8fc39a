// Why it is here: the interaction model with mean-centred predictors.
data {
  int<lower=1> N;
  vector[N] kid_score;
  vector[N] mom_hs;
  vector[N] mom_iq;
}
transformed data {
  vector[N] hs = mom_hs - mean(mom_hs);
  vector[N] iq = mom_iq - mean(mom_iq);
}
parameters {
  vector[4] beta;
  real<lower=0> sigma;
}
model {
  kid_score ~ normal(beta[1] + beta[2] * hs + beta[3] * iq + beta[4] * (hs .* iq), sigma);
}
