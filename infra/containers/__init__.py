"""What the image is built with."""
