"""Sums of partitions in one fixed order, however the partitions are shared out.

The order is that of a binary tree over the numbers of the partitions. A process that holds some neighbouring partitions
adds what lies below a common node, and the driver adds the rest: the same additions for any number of processes.
"""

from __future__ import annotations

from typing import Any

__all__ = ["TreeSum"]


class TreeSum:
    """A sum over the leaves 0 .. n - 1 of a tree; node i of a level is the sum of nodes 2 i and 2 i + 1 below it.

    `nodes` are the sums that still wait for their neighbour, by level and number: O(log n) of them where the leaves
    came in order.
    """

    def __init__(self, n_leaves: int) -> None:
        self.n_leaves = n_leaves
        self.nodes: dict[tuple[int, int], Any] = {}

    def add(self, value: Any, number: int, level: int = 0) -> None:
        """Add a leaf, or a node of a higher level: it goes up for as long as its neighbour is there."""
        while (1 << level) < self.n_leaves:
            neighbour = number ^ 1
            if neighbour << level < self.n_leaves:  # else there is none
                if (level, neighbour) not in self.nodes:
                    break
                other = self.nodes.pop((level, neighbour))
                left, right = (value, other) if number < neighbour else (other, value)
                left += right
                value = left
            level, number = level + 1, number >> 1
        self.nodes[level, number] = value

    @property
    def total(self) -> Any:
        """The sum of all leaves."""
        (total,) = self.nodes.values()
        return total
