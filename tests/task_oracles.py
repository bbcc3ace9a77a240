"""Plain, slow generators written from the tasks' definitions, one token at a time.

The library's vectorised samplers are compared with them in distribution.
"""

from __future__ import annotations

import random
import statistics

NOISE, IGNORE = None, -100


def fuzzy_recall(rng, num_keys, num_values, length, k_most, v_most, train):
    """One sequence of tuples: (pairs shown, asked flags, probe shown, tokens before padding)."""

    def draw_key():
        size = rng.randint(1, k_most) if train else k_most
        return tuple(rng.sample(range(num_keys), size))

    def draw_value():
        return tuple(rng.sample(range(num_keys, num_keys + num_values), rng.randint(1, v_most)))

    probe = (draw_key(), draw_value())
    probe_length = len(probe[0]) + len(probe[1])
    index = rng.randrange(length - 2 * probe_length)
    table, pairs, asked, written = {}, [], [], 0
    shown = False
    while written < length - probe_length - (k_most + v_most):
        if written >= index and not shown:
            key, value = probe
        else:
            key = draw_key()
            value = probe[1] if key == probe[0] else table.get(key) or draw_value()
        shown = shown or key == probe[0]
        asked.append(key in table)
        table[key] = value
        pairs.append((key, value))
        written += len(key) + len(value)
    return [*pairs, probe], [*asked, True], shown, written + probe_length


def listops_tree(rng, depth, max_depth, max_args, probability=0.25):
    """A random tree: a digit, or (operator, arguments)."""
    if depth == max_depth or rng.random() >= probability:
        return rng.randrange(10)
    arguments = [
        listops_tree(rng, depth + 1, max_depth, max_args, probability)
        for _ in range(rng.randint(2, max_args))
    ]
    return rng.choice(("[MIN", "[MAX", "[MED", "[SM")), arguments


def listops_length(tree):
    return 1 if isinstance(tree, int) else 2 + sum(map(listops_length, tree[1]))


def apply_operator(operator, arguments):
    if operator == "[MED":
        return int(statistics.median(arguments))
    return {"[MIN": min, "[MAX": max, "[SM": lambda a: sum(a) % 10}[operator](arguments)


def listops_value(tree):
    if isinstance(tree, int):
        return tree
    return apply_operator(tree[0], [listops_value(argument) for argument in tree[1]])


def listops_parse(words):
    """Value and depth of a written expression, by a stack."""
    stack, deepest = [("", [])], 1
    for word in words:
        if word.startswith("["):
            stack.append((word, []))
            deepest = max(deepest, len(stack))
        elif word == "X":
            operator, arguments = stack.pop()
            assert len(arguments) >= 2, "an operator needs two arguments"
            stack[-1][1].append(apply_operator(operator, arguments))
        else:
            stack[-1][1].append(int(word))
    assert len(stack) == 1, "an operator is not closed"
    (value,) = stack[0][1]
    return value, deepest


def seeded(seed):
    return random.Random(seed)
