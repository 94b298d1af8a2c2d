"""The pin: numbers of earlier versions, which later work must not move unless it says so."""

import numpy as np
import pytest

import pinned

STORED = pinned.read()


def test_every_entry_is_pinned_and_nothing_else_is():
    assert list(STORED) == list(pinned.ENTRIES)


@pytest.mark.parametrize("name", pinned.ENTRIES)
def test_the_pinned_numbers_hold(name):
    assert pinned.compare(name, pinned.compute(name), STORED[name]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in pinned.ENTRIES if "exact" not in name])
def test_the_pinned_numbers_hold_in_other_blocks_of_rows(name):
    assert pinned.compare(name, pinned.compute(name, block_size=61, n_jobs=2), STORED[name]) == []


@pytest.mark.parametrize(("key", "factor"), [("value", 1 + 3e-4), ("latent_mean", 1.01), ("latent_variance", 1.003)])
def test_the_pin_would_see_a_difference(key, factor):
    entry = STORED["boston-fixed-vfe"]
    assert pinned.compare("boston-fixed-vfe", entry, entry) == []
    moved = entry | {key: factor * np.array(entry[key])}
    assert len(pinned.compare("boston-fixed-vfe", moved, entry)) == 1
    assert len(pinned.compare("boston-fixed-vfe", entry | {"n_knots": 16}, entry)) == 1
