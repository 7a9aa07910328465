"""The one DynamoDB table: keys, items, indexes, and one repository per noun. Nobody else speaks DynamoDB."""
