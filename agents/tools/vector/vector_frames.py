"""Frames of environments without rendering, from their observations."""

import numpy as np

from agents.tools import errors

# How large a frame is made, about.
PIXELS = 336


def of_observation(observ: np.ndarray) -> np.ndarray:
    """Return an image observation as a frame of a video.

    Of a stack `[frame, height, width]` the last one.
    """
    if observ.dtype != np.uint8 or observ.ndim not in (3, 4):
        raise errors.EnvError(
            'it renders no frames, and its observations are no images. If '
            'there is a single environment with the same spaces, ask for that '
            'one, by --set env=Id for example.'
        )
    frame = observ[-1]
    if frame.ndim == 2:
        frame = np.repeat(frame[..., None], 3, -1)
    size = PIXELS // max(frame.shape[:2]) or 1
    return frame.repeat(size, 0).repeat(size, 1)
