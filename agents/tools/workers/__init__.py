"""Worker processes: shared memory, requests and replies, life and death."""
