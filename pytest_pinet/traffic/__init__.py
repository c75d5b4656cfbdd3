"""Tools that put traffic on the wire. They use shells and values, not pytest or Allure."""
