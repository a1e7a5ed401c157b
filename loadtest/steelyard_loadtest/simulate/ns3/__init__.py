"""The ns-3 study of Peak EWMA, simulated again, with the product's laws and pickers in the same table."""
