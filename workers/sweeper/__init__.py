"""The sweeper: whatever is overdue in any region."""
