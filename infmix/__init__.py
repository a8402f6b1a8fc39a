"""Infinite stochastic mixtures: approximations between sampling and variational inference."""
