"""Timed comparisons; each prints ratios within one sitting."""
