"""The stability maps: where each law settles, over load and delay and over gain and interval."""
