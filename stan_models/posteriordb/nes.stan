// Why it is here: eight predictors of party identification, one of them a factor of four age groups.
data {
  int<lower=1> N;
  vector[N] partyid7;
  vector[N] real_ideo;
  vector[N] race_adj;
  array[N] int<lower=1, upper=4> age_discrete;
  vector[N] educ1;
  vector[N] gender;
  vector[N] income;
}
transformed data {
  matrix[N, 3] age = rep_matrix(0, N, 3);
  for (n in 1:N) {
    if (age_discrete[n] > 1) {
      age[n, age_discrete[n] - 1] = 1;
    }
  }
  matrix[N, 8] X = append_col([real_ideo', race_adj']', append_col(age, [educ1', gender', income']'));
}
parameters {
  vector[9] beta;
  real<lower=0> sigma;
}
model {
  partyid7 ~ normal(beta[1] + X * beta[2:9], sigma);
}
