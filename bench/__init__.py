"""What the fleet costs and how fast it is: counts from the wire and ratios to a floor of the same run, each beside its bound."""
