"""Parts that algorithms share: distributions, returns, normalizers, optimizers."""
