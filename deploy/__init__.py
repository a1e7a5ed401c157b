"""The Helm chart, and the tests of it."""
