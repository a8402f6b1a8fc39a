// Why it is here: a simplex, one dimension fewer unconstrained than declared; a Dirichlet. log Z = 0.
parameters {
  simplex[4] share;
}
model {
  target += dirichlet_lpdf(share | [1.5, 2, 3, 0.8]');
}
