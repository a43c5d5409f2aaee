"""`python -m dibs` is the same as `dibs`."""

from dibs.cli.main import run

run()
