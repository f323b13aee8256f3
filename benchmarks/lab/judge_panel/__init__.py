"""Several judges on the same replies: do they agree, spare their own texts, or hang on an order that means nothing."""
