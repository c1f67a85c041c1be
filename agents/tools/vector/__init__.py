"""Vector environments of Gymnasium."""
