"""Trained policies: loading and playing.

load        `agents.load`
normalizer  statistics of observations and rewards
playing     environments for evaluation, videos and recordings
evaluation  `agents.evaluate`; recording, `agents.record`
video       `agents.visualize`
"""
