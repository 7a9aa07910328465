"""Who is calling, and what they may do: callers, and the sources that know them. Knows neither doors nor stores."""
