"""Ranges of numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np


class Range:
    """Minimum, maximum, mean and standard deviation of the numbers added to it.

    Numbers that are not finite are only counted.

    Args:
        shape: Shape of the arrays to add.
    """

    def __init__(self, shape: Sequence[int] = ()):
        self._least = np.full(shape, np.inf)
        self._most = np.full(shape, -np.inf)
        self._mean = np.zeros(shape)
        self._squares = np.zeros(shape)  # Of the distances from the mean.
        self._count = np.zeros(shape, np.int64)
        self.not_finite = 0
        self.zeros = 0

    def add(self, value: Any) -> None:
        value = np.asarray(value, np.float64)
        finite = np.isfinite(value)
        if not finite.all():
            self.not_finite += int(np.size(finite) - np.sum(finite))
            value = np.where(finite, value, self._mean)
        self._count = self._count + finite
        self.zeros += int(np.sum((value == 0) & finite))
        distance = value - self._mean
        self._mean = self._mean + distance / np.maximum(self._count, 1)
        self._squares = self._squares + distance * (value - self._mean)
        self._least = np.minimum(self._least, np.where(finite, value, np.inf))
        self._most = np.maximum(self._most, np.where(finite, value, -np.inf))

    @property
    def count(self) -> int:
        """Number of finite numbers."""
        return int(self._count.sum())

    @property
    def least(self) -> float:
        return float(self._least.min())

    @property
    def most(self) -> float:
        return float(self._most.max())

    @property
    def mean(self) -> float:
        """Mean of all numbers."""
        return float(np.sum(self._mean * self._count) / max(self.count, 1))

    @property
    def deviation(self) -> float:
        """Standard deviation of all numbers."""
        apart = self._count * (self._mean - self.mean) ** 2
        total = np.sum(self._squares + apart)
        return float(np.sqrt(total / max(self.count, 1)))

    @property
    def constant(self) -> list[int]:
        """Flat indices of the elements that never changed."""
        return np.flatnonzero(self._least == self._most).tolist()
