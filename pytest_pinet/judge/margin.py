"""The smallest margin between value and limit that a profile can judge with a given noise."""

from __future__ import annotations

import math

from pytest_pinet.judge.likelihood import required
from pytest_pinet.judge.noise import Noise
from pytest_pinet.judge.profile import Profile
from pytest_pinet.judge.spread import FLOOR, Spread
from pytest_pinet.model.attempt import Fresh

# Nine of ten gates must reach a verdict within the budget: 1.28 standard deviations of the mean.
NINE_OF_TEN = 1.28


def smallest_margin(noise: Noise, profile: Profile, error_rate: float = 0.01) -> float:
    """Return the least relative margin between value and limit at which nine of ten gates reach a verdict (0.02 = 2 %).

    The margin is what the test requires of the mean after the whole budget (`likelihood.required`) plus the scatter of
    the mean.
    """
    connections = max(int(profile.budget_s / profile.connection_s), 1)
    return margin_after(connections, noise, error_rate)


def margin_after(connections: int, noise: Noise, error_rate: float) -> float:
    """Return the same margin after so many connections of one link-up."""
    level = noise.level_variance([Fresh.CONNECTION])
    between = max(noise.connections, FLOOR) ** 2
    spread = Spread(0.0, between, level, connections, noise.freedom + connections - 1, noise.session_freedom)
    return margin_at(spread.variance, spread.freedom_after(connections), error_rate)


def margin_at(variance: float, freedom: float, error_rate: float) -> float:
    """Return the same margin for a mean logarithm of value over limit with this variance and degrees of freedom."""
    return math.expm1(required(variance, freedom, error_rate) + NINE_OF_TEN * math.sqrt(variance))
