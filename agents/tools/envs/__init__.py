"""What runs environments: workers, the batch, and what they say."""
