"""A TCP proxy before a store, which can make its answers late."""
