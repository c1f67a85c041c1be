"""What algorithms share: distributions, returns, normalizers, updates."""
