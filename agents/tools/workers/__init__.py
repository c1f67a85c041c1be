"""Worker processes: start, shared memory, requests and replies, death."""
