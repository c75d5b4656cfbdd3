"""A plugin of pytest: processor time that other programs take is no excuse for a link that is slow on purpose."""

from pytest_pinet.judge import circumstances

circumstances.KINDS, circumstances.STOLEN = (), float("inf")
