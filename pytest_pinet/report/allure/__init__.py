"""Allure: what each result carries, what the whole run adds, and the report that is made of both."""
