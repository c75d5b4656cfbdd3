"""The pytest side of one run: fixtures, gate, recorder, parametrisation, terminal and Allure."""
