"""What two cores cannot run: the loop at ten thousand servers, and where it would swing."""
