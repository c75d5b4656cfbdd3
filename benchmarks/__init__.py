"""Measures the plugin's time besides traffic. ``make bench`` runs it."""
