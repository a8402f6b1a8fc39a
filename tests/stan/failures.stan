// Why it is here: every way in which an evaluation can fail, each in its own interval of x.
parameters {
  real x;
}
model {
  if (x > 1 && x < 2) {
    reject("x lies in the rejected interval");
  } else if (x > 2 && x < 3) {
    target += negative_infinity();
  } else if (x > 3 && x < 4) {
    target += not_a_number() * x;
  } else if (x > 4 && x < 5) {
    x ~ normal(0, -1);
  } else if (x > 5 && x < 6) {
    target += acos(x - 4.5);  // at 5.5 a finite value and an infinite gradient
  } else if (x > 6 && x < 7) {
    target += positive_infinity();
  }
  target += -0.5 * square(x);
}
