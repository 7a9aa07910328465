"""Templates: manifests with placeholders, and how an object is made of one."""
