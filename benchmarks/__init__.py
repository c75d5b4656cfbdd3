"""What the plugin costs beside traffic; run by ``make bench``."""
