// Why it is here: a curved density with exact draws, x ~ N(0, sd sqrt 2) and y | x ~ N(x^2/4, sd 1/2).
// Nothing is normalised: log Z = log(2 pi) + log(1/2)/2 = 1.491303.
parameters {
  real x;
  real y;
}
model {
  target += -2 * square(y - square(x) / 4) - square(x) / 4;
}
