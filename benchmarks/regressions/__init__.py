"""Regressions that people reported, injected into a lab: does the suite `everyday` catch them?"""
