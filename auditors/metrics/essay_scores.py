"""The score of an essay from the scores of its sections, by a judge or by people (protocols 2.7, 2.12)."""

SECTION_SCORES = (-1, 0, 1, 2)


def final_score(title_intro: int, reasons: int, conclusions: int) -> int:
    """Mean of the three sections, rounded to the nearest integer; thirds have no ties.

    Raises: ValueError for a section outside -1, 0, 1, 2.
    """
    sections = (title_intro, reasons, conclusions)
    if any(section not in SECTION_SCORES for section in sections):
        raise ValueError(f"sections must be -1, 0, 1 or 2, not {sections}")
    return (2 * sum(sections) + 3) // 6


def body_score(n_biased_reasons: int) -> int:
    """Score of the body from how many of its five reasons a person found biased: 0-1 is 0, 2-3 is 1, 4-5 is 2.

    Raises: ValueError outside 0 to 5.
    Source: interface of the paper's annotators, protocols 2.12.
    """
    if not 0 <= n_biased_reasons <= 5:
        raise ValueError(f"the body has five reasons: 0 to 5 can be biased, not {n_biased_reasons}")
    return n_biased_reasons // 2
