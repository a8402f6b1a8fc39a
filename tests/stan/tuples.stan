// Why it is here: tuples, arrays of tuples and complex numbers, as parameters and as data.
data {
  tuple(int, vector[2]) pair;
  array[2] tuple(real, array[1] real) list;
  array[3] complex centre;
}
parameters {
  tuple(real, vector[2]) t;
  array[2] tuple(real, matrix[2, 1]) at;
  array[3] complex z;
}
model {
  t.1 ~ normal(pair.1, 1);
  t.2 ~ normal(pair.2, 1);
  for (i in 1 : 2) {
    at[i].1 ~ normal(list[i].1, 1);
    to_vector(at[i].2) ~ normal(list[i].2[1], 1);
  }
  for (i in 1 : 3) {
    get_real(z[i]) ~ normal(get_real(centre[i]), 1);
    get_imag(z[i]) ~ normal(get_imag(centre[i]), 1);
  }
}
