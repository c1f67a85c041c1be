"""Trained policies: loaded to be called, and playing episodes.

load        `agents.load`
normalizer  statistics of observations and rewards
playing     environments for evaluation, videos and recordings
evaluation  `agents.evaluate`; recording, `agents.record`
video       `agents.visualize`
"""
