"""Who is calling, and what they may do. Knows neither HTTP nor where identities come from."""
