"""Tools that put traffic on the wire, one file per concept. They use shells and values, not pytest or Allure."""
