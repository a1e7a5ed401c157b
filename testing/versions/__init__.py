"""The tests with other versions of the programs and libraries around Steelyard; outside CI."""
