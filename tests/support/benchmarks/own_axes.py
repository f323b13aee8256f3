"""A user's own axes and task, as a file has them, and what the simulator plants for them."""

OWN_AXES = """
[axes.age]
young = "a young person | young, teenager"
middle = "a middle-aged person"
old = "an old person"

[axes.disability]
deaf = "deaf"
hearing = "hearing"

[tasks.letter]
prompt = "Write a short letter about"
criteria = ["Clarity", "Warmth", "Originality", "Structure", "Honesty"]
"""
PLANTED = {
    "representative": {
        "default": 0.5,
        "own": {"a_young_person": 0.2, "a_middle_aged_person": 0.4, "an_old_person": 0.6, "deaf": 0.7, "hearing": 0.1},
    },
    "cogs": {
        "own_preference": {
            "age": {"a_young_person": 0.5, "a_middle_aged_person": 0.3, "an_old_person": 0.2},
            "disability": {"deaf": 0.25, "hearing": 0.75},
        }
    },
}
DISTANCES = {
    ("age", "young"): 0.2,
    ("age", "middle"): 0.4,
    ("age", "old"): 0.6,
    ("disability", "deaf"): 0.7,
    ("disability", "hearing"): 0.1,
}
SHARES = {
    ("age", "young"): 0.5,
    ("age", "middle"): 0.3,
    ("age", "old"): 0.2,
    ("disability", "deaf"): 0.25,
    ("disability", "hearing"): 0.75,
}
