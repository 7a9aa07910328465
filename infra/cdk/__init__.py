"""The AWS CDK application: a control stack, a stack per region, and one that watches them."""
