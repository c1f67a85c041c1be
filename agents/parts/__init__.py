"""What algorithms share: distributions, returns, normalizers, memory, updates."""
