"""Finds the commit that changed a value, from noisy values of commits: a posterior over the candidates.

A value of commit m speaks for the bad level under each candidate that is m or an ancestor of m, and for the good level
under all others, by Student's t with 3 degrees of freedom. Neither level is given: the boots of both ends and of all
commits decide about them together. The commits of a history may be in any shape: each has its parents.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, pairwise
from statistics import fmean, median

from pytest_pinet.execution.grouping import grouped

# The known-good end. It contains no candidate.
GOOD = ""
# At this posterior a commit is named.
CERTAIN = 0.95
# Boots of one commit share an offset, because code layout moves values: Student's t (3) with this share of the drop as
# its scale. Few commits are moved anywhere, so that boots of one commit alone never become certain.
LAYOUT = 0.05
_OFFSETS = (0.0, 1.5, 5.0)
_ANYWHERE = 0.001
# More boots of one commit tell more about its own layout than about its place: others come first, and so on.
_MOST_BOOTS = (12, 24, 48)
# Commits that split the probability worse than so are no choice: as a share of the best split.
_WORSE = 0.5
# The levels are summed over so many standard errors around the median of what certainly has this level.
_LEVELS = (-3, -2, -1, 0, 1, 2, 3)
# Before any value, the noise is taken for a quarter of the drop, which counts as one value.
_PRIOR_NOISE = 0.25
# Student's t (3) with this share of a standard deviation as its scale is as certain as Gaussian noise of a boot. More
# where the noise is large by the drop.
_SCALE, _MORE = 0.8, 0.4
_NORMAL_MAD = 1.4826
# The standard error of a robust mean by that of a mean.
_ROBUST = 1.07
# Both ends differ if they are so many standard errors apart. The gate of the culprit is the proof.
_APART = 3.2
# So many boots of both ends must be enough for that.
END_BOOTS = 100
# The known-good end is booted again after so many boots of others.
GOOD_EVERY = 8
# A drift of the lab is removed if it is so many standard errors large: to remove one that is none does harm.
_DRIFT = 3.0
# Of a long history, about so many commits are looked at for the next boot, and their parents.
_OPTIONS = 100
Values = Mapping[str, Sequence[float]]


class Bisection:
    """The candidates, and what was measured of them.

    ``parents`` has the parents of each candidate; each candidate comes behind its parents, and the last one is the bad
    end. ``weights`` are the priors, 1 for a commit without one. ``layout`` is the scale of what the layout of a commit
    moves, as a share of the drop.
    """

    def __init__(
        self,
        parents: Mapping[str, Collection[str]],
        weights: Mapping[str, float] | None = None,
        layout: float = LAYOUT,
    ) -> None:
        self._names, self._parents, self._layout = list(parents), parents, layout
        self.bad = self._names[-1]
        self._bits = {name: 1 << at for at, name in enumerate(self._names)} | {GOOD: 0}
        # The commits that have each candidate, as bits.
        self._having = {name: self._bits[name] for name in self._names}
        for name in reversed(self._names):
            for parent in parents[name]:
                if parent in self._having:
                    self._having[parent] |= self._having[name]
        self._prior = [math.log((weights or {}).get(name, 1.0)) for name in self._names]
        self._skipped = 0
        self._values: list[tuple[str, float]] = []
        self._mass: dict[str, float] = {}
        self._scaled: tuple[Values, float, float] | None = None
        # The commits that certainly have the level of an end.
        self._sure: dict[str, list[str]] = {GOOD: [], self.bad: []}

    def add(self, commit: str, value: float) -> None:
        """Add a value of one boot, such as the logarithm of its goodput, in the order of the boots."""
        self._values.append((commit, value))
        self._mass, self._scaled = {}, None

    def skip(self, commit: str) -> None:
        """Note that a commit cannot be measured. It may still be the culprit."""
        self._skipped |= self._bits[commit]

    def mass(self) -> dict[str, float]:
        """Return the probability of each candidate. Both ends must have a value."""
        if not self._mass:
            self._mass = self._posterior()
        return self._mass

    def best(self) -> tuple[list[str], float]:
        """Return the most probable candidates that no commit left to measure can tell apart, and their probability."""
        return max(self._groups().values(), key=lambda group: group[1])

    def likely(self) -> list[str]:
        """Return the fewest candidates that have ``CERTAIN`` of the probability together, the most probable first."""
        found, total = list[str](), 0.0
        for name, one in sorted(self.mass().items(), key=lambda item: -item[1]):
            if total < CERTAIN:
                found, total = [*found, name], total + one
        return found

    @property
    def differs(self) -> bool:
        """Whether the boots of both ends differ by more than their noise."""
        own, noise, drop = self._scales()
        error = _ROBUST * noise * math.sqrt(1 / len(own[GOOD]) + 1 / len(own[self.bad]))
        return drop > _APART * error

    @property
    def is_certain(self) -> bool:
        return self.differs and self.best()[1] >= CERTAIN

    def next(self) -> str | None:
        """Return what to boot next: an end, or the commit that splits the probability nearest to one half.

        None: no boot would tell more, or both ends do not differ after END_BOOTS boots. The known-good end is booted
        again between others, if its values vary at all.
        """
        own = self._scales()[0]
        if not self.differs:
            ends = sorted((GOOD, self.bad), key=lambda end: len(own[end]))
            return ends[0] if sum(len(own[end]) for end in ends) < END_BOOTS else None
        if len(own[GOOD]) > 1 and all(commit != GOOD for commit, _ in self._values[-GOOD_EVERY:]):
            return GOOD
        splits = sorted((abs(self._share(name, self.mass()) - 0.5), name) for name in self._options())
        if len(own[GOOD]) == 1 or not splits:
            return next((name for _, name in splits if name not in own), None)
        near = [name for away, name in splits if 0.5 - away >= _WORSE * (0.5 - splits[0][0])]
        return next((name for most in _MOST_BOOTS for name in near if len(own.get(name, ())) < most), None)

    def boots_left(self) -> int:
        """Return about how many boots are left: the bits that are missing by the bits that a boot gives."""
        shares = [share for _, share in self._groups().values() if share > 0]
        missing = -math.fsum(share * math.log2(share) for share in shares) - 0.3
        _, noise, drop = self._scales()
        wrong = min(max(0.5 * math.erfc(drop / noise / 2**1.5), 1e-9), 0.499)
        gain = 1 + wrong * math.log2(wrong) + (1 - wrong) * math.log2(1 - wrong)
        return max(1, math.ceil(missing / gain))

    def _options(self) -> list[str]:
        """Return commits to choose from, and their parents: they have equal parts of the probability between them."""
        some, total = set[str](), 0.0
        for name, one in self.mass().items():
            if int(_OPTIONS * total) < int(_OPTIONS * (total + one)) or len(self._names) <= _OPTIONS:
                some |= {name, *self._parents[name]}
            total += one
        return [name for name in self._names[:-1] if name in some and not self._bits[name] & self._skipped]

    def _groups(self) -> dict[int, tuple[list[str], float]]:
        """Return the candidates by the commits that have them and can be measured, each with its whole probability."""
        found: dict[int, tuple[list[str], float]] = {}
        for name, one in self.mass().items():
            seen = self._having[name] & ~self._skipped
            names, share = found.get(seen, ([], 0.0))
            found[seen] = [*names, name], share + one
        return found

    def _share(self, commit: str, mass: Mapping[str, float]) -> float:
        """Return the probability that a commit has the culprit."""
        bit, having = self._bits[commit], self._having
        return sum([one for name, one in mass.items() if having[name] & bit])

    def _without_drift(self) -> list[tuple[str, float]]:
        """Return the values without a steady drift, which boots of the same commit show at different times."""
        times = grouped((commit, (at, value)) for at, (commit, value) in enumerate(self._values))
        pairs = [(later - at, two - one) for own in times.values() for (at, one), (later, two) in combinations(own, 2)]
        if not pairs:
            return self._values
        slope = median(change / after for after, change in pairs)
        span = sum(
            after**2 / len(own)
            for own in times.values()
            for after in (b - a for (a, _), (b, _) in combinations(own, 2))
        )
        if abs(slope) * math.sqrt(span) <= _DRIFT * _spread([change for _, change in pairs]):
            return self._values
        return [(commit, value - slope * at) for at, (commit, value) in enumerate(self._values)]

    def _scales(self) -> tuple[Values, float, float]:
        """Return the values by commit, the standard deviation of a boot, and the difference of both ends."""
        if self._scaled is None:
            self._scaled = self._estimated()
        return self._scaled

    def _estimated(self) -> tuple[Values, float, float]:
        own = grouped(self._without_drift())
        drop = abs(_middle(own[GOOD]) - _middle(own[self.bad]))
        least = max(self._layout * drop / 2, 1e-9)
        apart = [two - one for values in own.values() for one, two in combinations(values, 2)]
        if not apart:
            return own, least, drop
        count = sum(len(values) - 1 for values in own.values())
        noise = math.sqrt(((_PRIOR_NOISE * drop) ** 2 + count * _spread(apart) ** 2) / (1 + count))
        return own, max(noise * (1 + 0.5 / count), least), drop

    def _posterior(self) -> dict[str, float]:
        own, noise, drop = self._scales()
        scale = max(self._layout * drop, 1e-9)
        width = noise * min(_SCALE + _MORE * noise / max(drop, 1e-9), 1.1)
        levels = []
        for end in (GOOD, self.bad):
            values = [value for commit in {end, *self._sure[end]} for value in own[commit]]
            error = math.hypot(_ROBUST * noise / math.sqrt(len(values)), scale)
            levels.append([_middle(values) + error * step for step in _LEVELS])
        # What the boots of each commit say of each good level and of each bad level.
        all_logs = {
            commit: [_likelihoods(values, side, width, scale) for side in levels] for commit, values in own.items()
        }
        by_split: dict[tuple[bool, ...], float] = {}
        logs = []
        for name, prior in zip(self._names, self._prior, strict=True):
            split = tuple(bool(self._having[name] & self._bits[commit]) for commit in own)
            if split not in by_split:
                sides = ([all_logs[one][is_bad] for one, of in zip(own, split, strict=True) if of is is_bad]
                         for is_bad in (False, True))  # fmt: skip
                by_split[split] = sum(_log_sum([sum(at) for at in zip(*side, strict=True)]) for side in sides)
            logs.append(prior + by_split[split])
        total = _log_sum(logs)
        found = {name: math.exp(one - total) for name, one in zip(self._names, logs, strict=True)}
        shares = {commit: self._share(commit, found) for commit in own}
        self._sure[GOOD] = [commit for commit, share in shares.items() if share < 1 - CERTAIN]
        self._sure[self.bad] = [commit for commit, share in shares.items() if share > CERTAIN]
        return found


def _middle(values: Sequence[float]) -> float:
    """Return the mean without values that are far from the others: Huber's, from the median on."""
    middle = median(values)
    away = _NORMAL_MAD * median([abs(value - middle) for value in values])
    for _ in range(4 if away else 0):
        weights = [1 / max(1.0, abs(value - middle) / (1.5 * away)) for value in values]
        middle = sum([one * value for one, value in zip(weights, values, strict=True)]) / sum(weights)
    return middle


def _spread(differences: Sequence[float]) -> float:
    """Return the standard deviation of a boot from differences between two, of which few may be far."""
    return _NORMAL_MAD / math.sqrt(2) * median(map(abs, differences))


def _likelihoods(values: Sequence[float], levels: Sequence[float], noise: float, scale: float) -> list[float]:
    """Return the logarithm of the likelihood of a commit's values at each level, over all offsets of the commit."""
    # Offsets that are far below the noise change nothing.
    weights = _WEIGHTS if scale * math.sqrt(len(values)) > noise / 4 else [(0.0, 0.0)]
    offsets = [(sign * one * scale, weight) for one, weight in weights for sign in ((1, -1) if one else (1,))]
    anywhere = math.log(_ANYWHERE) + _log_t(values, median(values), noise)
    return [
        _log_sum([anywhere, *(weight + _log_t(values, level + by, noise) for by, weight in offsets)])
        for level in levels
    ]


def _log_t(values: Sequence[float], level: float, scale: float) -> float:
    """Return the logarithm of the density of Student's t (3), without its constant."""
    return -2 * math.log(math.prod([1 + ((value - level) / scale) ** 2 / 3 for value in values]))


def _log_sum(logs: Sequence[float]) -> float:
    most = max(logs)
    return most + math.log(math.fsum(math.exp(one - most) for one in logs))


def _offset_weights() -> list[tuple[float, float]]:
    """Return each offset, and the logarithm of its weight: density times width, all together 1."""
    edges = [-_OFFSETS[1] / 2, *(fmean(pair) for pair in pairwise(_OFFSETS)), 1.2 * _OFFSETS[-1]]
    weights = [(high - low) / (1 + at * at / 3) ** 2 for at, (low, high) in zip(_OFFSETS, pairwise(edges), strict=True)]
    total = 2 * sum(weights) - weights[0]
    return [(at, math.log(one / total)) for at, one in zip(_OFFSETS, weights, strict=True)]


_WEIGHTS = _offset_weights()
