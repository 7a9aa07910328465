"""GPU metrics of every make in one vocabulary: what exporters say, read, named alike, and joined to who holds the device."""
