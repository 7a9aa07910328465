"""Builds the packages of the Lambda functions: `python -m infra.lambdas`.

A package has the modules of ours that its handler leads to (`sources`), the distributions that these import and what those require
(`distributions`), without what is never loaded on Lambda (`pruning`). The same code gives the same bytes (`archives`).
"""
