"""Studies of sizes that two cores cannot run: the loop at ten thousand servers, and its stability."""
