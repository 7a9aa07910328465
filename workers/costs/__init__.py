"""The consumer that writes cost reports."""
