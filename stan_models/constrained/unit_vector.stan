// Why it is here: a unit vector, one dimension more unconstrained than the sphere has; von Mises-Fisher with
// concentration 2. Stan adds -|z|^2 / 2 for the radius, whose constant is the last term. log Z = 0.
parameters {
  unit_vector[3] direction;
}
model {
  target += 2 * dot_product([2.0 / 3, -1.0 / 3, 2.0 / 3], direction) - log(sinh(2) / 2) - 1.5 * log(2 * pi());
}
