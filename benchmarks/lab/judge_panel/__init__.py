"""Puts the same replies to several judges: do they agree, spare their own texts, or depend on a meaningless order."""
