"""Reports for people and programs: one file per format. Reports are made from results, without access to a lab."""
