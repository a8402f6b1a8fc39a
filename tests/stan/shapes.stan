// Why it is here: every kind of shape, in all three blocks: none, one, several and no element.
data {
  int<lower=0> N;
  matrix[N, 3] X;
}
parameters {
  real scalar;
  matrix[2, 3] M;
  array[2] vector[3] v;
  array[4, 0] real empty;
  row_vector[1] one;
  array[2, 1] matrix[3, 2] deep;
}
transformed parameters {
  matrix[N, 3] Y = X + scalar;
  matrix[3, 2] transposed = M';
}
model {
  scalar ~ std_normal();
}
generated quantities {
  array[2] int counts = {3, 4};
  array[0] vector[2] nothing;
}
