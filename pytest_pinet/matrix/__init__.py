"""Finds the combinations that a lab can measure, and their endpoints."""
