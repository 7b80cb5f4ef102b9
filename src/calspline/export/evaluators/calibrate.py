import math
from bisect import bisect_right
from operator import itemgetter

MODEL: dict


def softmax(y):
    """Positive numbers that sum to one, in the proportions of exp(y)."""
    top = max(y)
    return normalize([math.exp(max(v - top, -300.0)) for v in y])


def log_softmax(y):
    """Logarithms of the softmax."""
    top = max(y)
    total = math.log(sum(math.exp(v - top) for v in y))
    return [v - top - total for v in y]


def in_unit(p, unit, floor):
    """Logits times a unit, less the largest of them, none below a floor."""
    top = max(p)
    return [max(unit * (v - top), floor) for v in p]


def normalize(q):
    """Divide by the sum."""
    total = sum(q)
    return [v / total for v in q]


def rest_of(p):
    """The probability of all other classes."""
    top = max(range(len(p)), key=p.__getitem__)
    rest = [1.0 - v for v in p]
    # For the most probable class, 1 - p would round small probabilities away.
    rest[top] = sum(v for j, v in enumerate(p) if j != top)
    return rest


def log_odds(p, rest):
    """Log-odds of a probability, given that of everything else if it is known."""
    if rest is None:
        return math.log(max(p, 1e-300)) - math.log(max(1.0 - p, 1e-16))
    return math.log(max(p, 1e-300)) - math.log(max(rest, 1e-300))


def logistic(y):
    """The probability of log-odds."""
    return 1.0 / (1.0 + math.exp(-y))


def clip(x, low, high):
    """Limit to [low, high]."""
    return min(max(x, low), high)


def find_piece(pieces, z):
    """The place of a piece, and the distance from its start."""
    place = bisect_right(pieces, z, 1, key=itemgetter(0)) - 1
    return place, clip(z - pieces[place][0], -1e300, 1e300)


def cubic(coefficients, t):
    """A cubic, given its coefficients from the highest power on."""
    a, b, c, d = coefficients
    return ((a * t + b) * t + c) * t + d


def place_on_scale(curve, p, rest):
    """Transform a score to the scale of a curve."""
    if curve["scale"] == "identity":
        return p
    u = log_odds(p, rest)
    if curve["scale"] == "logit":
        return clip(u, *curve["scale_limits"])
    if curve["scale"] == "asinh_logit":
        return 5.0 * math.asinh(u / 5.0)
    low, high = curve["scale_limits"]
    share = p if rest is None else p / (p + rest)
    if low <= share <= high and share < 1.0:
        return clip(curve["slope"] * u + 0.5, low, high)
    return share


def evaluate_curve(curve, p, rest, places):
    """A spline, with the effects of segments if it has any."""
    x = place_on_scale(curve, p, rest)
    place, t = find_piece(curve["pieces"], (x - curve["origin"]) / curve["unit"])
    y = cubic(curve["pieces"][place][1:], t)
    if "segments" in curve:
        y = add_effects(curve, y, place, t, places)
    y = clip(y, curve["low"], curve["high"])
    return logistic(y) if curve["link"] == "logit" else y


def add_effects(curve, y, piece, t, places):
    """Add the effects of segments; take those of new ones towards zero."""
    directions = [cubic(pieces[piece], t) for pieces in curve["directions"]]
    variance = 1.0
    for column, place in zip(curve["segments"], places):
        y += sum(e * r for e, r in zip(column["effects"][place], directions))
        if place == len(column["effects"]) - 1:
            variance += sum(s * r * r for s, r in zip(column["spread"], directions))
    return y / math.sqrt(variance)


def evaluate_beta(beta, p, rest):
    """A beta curve."""
    x = p if beta["scores"] == "margin" else log_odds(p, rest)
    x = clip(x, -36.04365338911715, 36.04365338911715)
    s = math.log(1.0 + math.exp(-abs(x)))
    a, b, c = beta["abc"]
    y = a * (min(x, 0.0) - s) + b * (max(x, 0.0) + s) + c
    return logistic(clip(y, -34.538776394910684, 34.538776394910684))


def evaluate_score(table, p, rest, places):
    """The probability of a class, given its score and perhaps that of the rest."""
    if table["type"] == "curve":
        return evaluate_curve(table, p, rest, places)
    if table["type"] == "beta":
        return evaluate_beta(table, p, rest)
    if table["type"] == "odds":
        q = evaluate_score(table["base"], p, rest, places)
        return table["odds"] * q / (table["odds"] * q + (1.0 - q))
    if table["type"] == "clipping":
        q = max(p, table["least"])
        return q / (q + max(1.0 - p if rest is None else rest, table["least"]))
    raise ValueError(f"a map of one score has no type {table['type']!r}")


def evaluate_structured(table, p):
    """softmax(s(u) + W u + b) of tempered scores u."""
    if table["scores"] == "probability":
        z = [math.log(max(v, math.exp(table["floor"]))) for v in p]
    elif "unit" in table:
        z = in_unit(p, table["unit"], table["floor"])
    else:
        z = log_softmax(p)
    q = softmax([table["beta"] * max(v, table["floor"]) for v in z])
    grain = table["uniform"] / len(q)
    u = [math.log((1.0 - table["uniform"]) * v + grain) for v in q]
    y = []
    for j, v in enumerate(u):
        place, t = find_piece(table["pieces"], v)
        y.append(cubic(table["pieces"][place][1:], t) + table["intercepts"][j])
        if "diagonal" in table:
            y[j] += table["diagonal"][j] * v
        if "matrix" in table:
            y[j] += sum(w * x for w, x in zip(table["matrix"][j], u))
    return softmax(y)


def evaluate_one_vs_rest(table, p, places):
    """A map for each class, then normalize."""
    if table["logits"] == "tempered":
        p = in_unit(p, table["unit"], table["floor"])
    if table["logits"] != "as_given":
        p = softmax(p)
    rest = rest_of(p) if table["scores"] == "probability" else [None] * len(p)
    maps = table["maps"]
    return normalize([evaluate_score(*each, places) for each in zip(maps, p, rest)])


def evaluate_class_effects(table, p, places):
    """A temperature and intercepts for each segment."""
    base = evaluate_row(table["base"], p, places)
    effects = list(table["common"])
    for column, place in zip(table["effects"], places):
        effects = [a + b for a, b in zip(effects, column[place])]
    y = [effects[-1] * math.log(max(v, 1e-15)) for v in base]
    return softmax([a + b for a, b in zip(y, effects)] if len(effects) > 1 else y)


def evaluate_temperature(table, p):
    """Logits divided by a temperature."""
    z = p
    if table["scores"] == "probability":
        z = [math.log(max(v, 1e-9)) for v in p]
    top = max(z)
    d = [max((v - top) / table["temperature"], -34.538776394910684) for v in z]
    return normalize([math.exp(v) for v in d])


def evaluate_row(table, p, places):
    """The probabilities of all classes, given the score of each."""
    if table["type"] == "one_vs_rest":
        return evaluate_one_vs_rest(table, p, places)
    if table["type"] == "structured":
        return evaluate_structured(table, p)
    if table["type"] == "class_effects":
        return evaluate_class_effects(table, p, places)
    if table["type"] == "ratios":
        base = evaluate_row(table["base"], p, places)
        return normalize([r * v for r, v in zip(table["ratios"], base)])
    if table["type"] == "rates":
        return normalize(table["rates"])
    if table["type"] == "clipping":
        return normalize([max(v, table["least"]) for v in p])
    if table["type"] == "temperature":
        return evaluate_temperature(table, p)
    raise ValueError(f"a map of several scores has no type {table['type']!r}")


def find_segment(column, label):
    """The place of a segment; the last one is for new segments."""
    if label is not None and label == label:
        wanted = {"text": str, "number": (int, float)}.get(column["labels"])
        if wanted is not None and not isinstance(label, wanted):
            raise TypeError(
                f"by must be a {column['labels']}, as in fit; got {label!r}"
            )
    return column["places"].get(label, len(column["places"]))


def calibrate(p, *by):
    """Calibrate a score, or the list of scores of all classes.

    By has the segment of each column of segments, if there are any.
    """
    m = MODEL["classes"]
    scores = [p] if m == 2 else p
    valid = len(scores) == m - (m == 2)
    valid = valid and all(MODEL["low"] <= v <= MODEL["high"] for v in scores)
    what = "a finite number" if m == 2 else f"{m} finite numbers"
    if MODEL["scores"] == "probability":
        what = (
            "a probability in [0, 1]"
            if m == 2
            else f"{m} probabilities that sum to one"
        )
        valid = valid and (m == 2 or abs(sum(scores) - 1.0) <= 5e-3)
    if not valid:
        raise ValueError(f"p must be {what}; got {p!r}")
    if MODEL["scores"] == "probability":
        scores = [clip(v, 0.0, 1.0) for v in scores]
    columns = MODEL.get("segments", [])
    if len(by) > len(columns):
        raise TypeError(f"by must have {len(columns)} labels; got {len(by)}")
    labels = list(by) + [None] * (len(columns) - len(by))
    places = [find_segment(column, label) for column, label in zip(columns, labels)]
    if m == 2:
        return evaluate_score(MODEL["map"], scores[0], None, places)
    return evaluate_row(MODEL["map"], scores, places)
