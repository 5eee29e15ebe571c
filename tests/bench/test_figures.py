import pytest

from bench.figures import noise_floor, p95, paired_ratio, spread


def test_a_spread_is_the_median_and_the_range():
    found = spread([3.0, 1.0, 2.0, 9.0, 2.5])
    assert (found.median, found.low, found.high) == (2.5, 1.0, 9.0)


def test_a_ratio_is_computed_within_each_round():
    # The machine slows down fivefold halfway; the system stays twice as slow as its neighbour.
    baseline = [1.0, 1.0, 5.0, 5.0, 5.0]
    system = [2.0, 2.0, 10.0, 10.0, 10.0]
    found = paired_ratio(system, baseline)
    assert (found.median, found.low, found.high) == (2.0, 2.0, 2.0)


def test_rounds_of_unequal_number_cannot_be_paired():
    with pytest.raises(ValueError, match="zip"):
        paired_ratio([1.0, 2.0], [1.0])


def test_the_noise_floor_is_twice_the_usual_distance_either_way():
    floor = noise_floor([1.0, 1.0, 1.0], [1.1, 0.8, 1.0])
    assert floor.factor == pytest.approx(1.1**2)
    assert floor.covers(1.2)
    assert floor.covers(0.83)
    assert not floor.covers(1.22)
    assert not floor.covers(0.82)


def test_one_disturbed_round_does_not_drown_the_others():
    assert noise_floor([1.0] * 5, [1.0, 1.02, 9.0, 1.0, 1.0]).factor == 1.0


def test_a_95th_percentile_needs_twenty_values():
    assert p95([1.0] * 19) is None
    assert p95([float(value) for value in range(1, 21)]) == 19.0
    assert p95([float(value) for value in range(1, 101)]) == 95.0
