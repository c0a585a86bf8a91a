"""Tests with several servers, or with servers that are killed: `make check-operations`. They take some minutes."""
