"""Counts the verdicts of whole runs of the product on a simulated board: baselines, gates, comparisons, builds.

`board` has the board with its clock and its link, `behaviours` the kinds of links, `lab` the runs, `rows` what is
counted. The existing links of `benchmarks.verdicts` know no order of connections; these do.
"""
