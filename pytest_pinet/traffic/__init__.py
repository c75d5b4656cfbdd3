"""What puts traffic on the wire, a file per concept; knows shells and values, neither pytest nor Allure."""
