"""Products of all pairs of rows, in blocks."""

import numpy as np
import pytest

from solspace.numerics.series import mean_pair_product, pair_products


@pytest.mark.parametrize("k", [0, 1, 2, 255, 256, 257, 700])
def test_blocks_give_the_pairs_of_the_whole_square(k):
    rows = np.random.default_rng(k).choice(np.array([-1, 1], np.int8), (k, 5))
    square = rows.astype(int) @ rows.T.astype(int)
    np.testing.assert_array_equal(pair_products(rows), square[np.triu_indices(k, 1)])


@pytest.mark.parametrize("kind", [np.int8, np.float32, np.float64])
def test_the_mean_is_that_of_the_pairs(kind):
    rows = np.random.default_rng(0).integers(-90, 90, (300, 7)).astype(kind)
    assert mean_pair_product(rows) == pytest.approx(pair_products(rows).mean(), rel=1e-12)
