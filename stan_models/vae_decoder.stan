// Why it is here: amortised inference; a dense decoder of black-and-white pixels, one latent vector an image.
// With N = 0 nothing is left but the decoder's own prior, which keeps its weights from growing without bound.
data {
  int<lower=0> N; // images
  int<lower=1> P; // pixels
  int<lower=1> L; // latent dimensions
  int<lower=1> H; // hidden units
  array[N, P] int<lower=0, upper=1> x;
}
transformed data {
  array[N * P] int<lower=0, upper=1> pixels; // image after image
  for (n in 1 : N) {
    for (p in 1 : P) {
      pixels[(n - 1) * P + p] = x[n, p];
    }
  }
}
parameters {
  array[N] vector[L] z;
  matrix[H, L] hidden_weights;
  vector[H] hidden_bias;
  matrix[P, H] pixel_weights;
  vector[P] pixel_bias;
}
model {
  to_vector(hidden_weights) ~ normal(0, 1);
  hidden_bias ~ normal(0, 1);
  to_vector(pixel_weights) ~ normal(0, 1);
  pixel_bias ~ normal(0, 3);
  if (N > 0) {
    matrix[L, N] latent;
    for (n in 1 : N) {
      z[n] ~ std_normal();
      latent[ : , n] = z[n];
    }
    matrix[H, N] hidden = tanh(hidden_weights * latent + rep_matrix(hidden_bias, N));
    pixels ~ bernoulli_logit(to_vector(pixel_weights * hidden + rep_matrix(pixel_bias, N)));
  }
}
