"""Gates that are ready to run: ``pytest --pyargs pytest_pinet.suites --pinet-lab=LAB``."""
