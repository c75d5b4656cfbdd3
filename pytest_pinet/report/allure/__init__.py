"""The Allure report: the content of each result, the files of the whole run, and the `allure` command."""
