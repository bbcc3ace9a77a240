"""Words and reading times: what counts, and that chapters name the time that they take."""

from __future__ import annotations

from book.tools.words import count, pages, reading

PAGE = """---
kernelspec:
  name: python3
---

# A title

Three plain words, $a^2 + b$ and a formula.
% see: a comment counts for nothing

```{math}
x = y
```

```{code-cell} ipython3
:tags: [nbval-ignore-output]
one = 1
two = 2
```

```{code-cell} ipython3
:tags: [remove-input]
folded = 3
```

**Reading time.** 7 minutes.

## Exercises

More words here.
"""


def test_words_are_those_outside_code_formulas_and_comments() -> None:
    assert count("Three plain words, $a^2 + b$ and a formula.") == 6
    found = reading("architectures/x", PAGE)
    assert found.words == count(PAGE.split("---\n")[2]) == 18
    assert (found.minutes, found.named, found.most) == (1, 7, 2000)


def test_minutes_count_open_code_and_no_exercises() -> None:
    long = PAGE.replace("one = 1", "\n".join(["one = 1"] * 59)).replace("Three", "word " * 460)
    assert reading("x", long).minutes == 5  # 460 words, 60 lines
    assert reading("x", long.replace("More", "word " * 460)).minutes == 5


def test_chapters_name_the_time_that_they_take() -> None:
    told = {one.name: (one.named, one.minutes) for one in pages() if one.named is not None}
    assert len(told) > 30
    assert {name: pair for name, pair in told.items() if abs(pair[0] - pair[1]) > 2} == {}
