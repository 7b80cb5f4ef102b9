// Positive numbers that sum to one, in the proportions of exp(y).
function softmax(y) {
    const top = y.reduce((a, b) => Math.max(a, b));
    return normalize(y.map((v) => Math.exp(Math.max(v - top, -300))));
}

// Logarithms of the softmax.
function logSoftmax(y) {
    const top = y.reduce((a, b) => Math.max(a, b));
    const total = Math.log(y.reduce((sum, v) => sum + Math.exp(v - top), 0));
    return y.map((v) => v - top - total);
}

// Logits times a unit, less the largest of them, none below a floor.
function inUnit(p, unit, floor) {
    const top = p.reduce((a, b) => Math.max(a, b));
    return p.map((v) => Math.max(unit * (v - top), floor));
}

// Divide by the sum.
function normalize(q) {
    const total = q.reduce((sum, v) => sum + v, 0);
    return q.map((v) => v / total);
}

// The probability of all other classes.
function restOf(p) {
    const top = p.indexOf(p.reduce((a, b) => Math.max(a, b)));
    // For the most probable class, 1 - p would round small probabilities away.
    const others = p.reduce((sum, v, j) => (j === top ? sum : sum + v), 0);
    return p.map((v, j) => (j === top ? others : 1 - v));
}

// Log-odds of a probability, given that of everything else if it is known.
function logOdds(p, rest) {
    const logRest = Math.log(rest === undefined ? Math.max(1 - p, 1e-16) : Math.max(rest, 1e-300));
    return Math.log(Math.max(p, 1e-300)) - logRest;
}

// The probability of log-odds.
function logistic(y) {
    return 1 / (1 + Math.exp(-y));
}

// Limit to [low, high].
function clip(x, low, high) {
    return Math.min(Math.max(x, low), high);
}

// The place of a piece, and the distance from its start.
function findPiece(pieces, z) {
    let low = 0;
    let high = pieces.length;
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (z < pieces[middle][0]) high = middle;
        else low = middle;
    }
    return [low, clip(z - pieces[low][0], -1e300, 1e300)];
}

// A cubic, given its coefficients from the highest power on.
function cubic([a, b, c, d], t) {
    return ((a * t + b) * t + c) * t + d;
}

// Transform a score to the scale of a curve.
function placeOnScale(curve, p, rest) {
    if (curve.scale === "identity") return p;
    const u = logOdds(p, rest);
    if (curve.scale === "asinh_logit") return 5 * Math.asinh(u / 5);
    const [low, high] = curve.scale_limits;
    if (curve.scale === "logit") return clip(u, low, high);
    const share = rest === undefined ? p : p / (p + rest);
    if (low <= share && share <= high && share < 1) return clip(curve.slope * u + 0.5, low, high);
    return share;
}

// A spline, with the effects of segments if it has any.
function evaluateCurve(curve, p, rest, places) {
    const x = placeOnScale(curve, p, rest);
    const [place, t] = findPiece(curve.pieces, (x - curve.origin) / curve.unit);
    let y = cubic(curve.pieces[place].slice(1), t);
    if (curve.segments !== undefined) y = addEffects(curve, y, place, t, places);
    y = clip(y, curve.low, curve.high);
    return curve.link === "logit" ? logistic(y) : y;
}

// Add the effects of segments; take those of new ones towards zero.
function addEffects(curve, y, piece, t, places) {
    const directions = curve.directions.map((pieces) => cubic(pieces[piece], t));
    let variance = 1;
    curve.segments.forEach((column, c) => {
        const effects = column.effects[places[c]];
        directions.forEach((r, k) => {
            if (k < effects.length) y += effects[k] * r;
            if (places[c] === column.effects.length - 1) variance += column.spread[k] * r * r;
        });
    });
    return y / Math.sqrt(variance);
}

// A beta curve.
function evaluateBeta(beta, p, rest) {
    const u = beta.scores === "margin" ? p : logOdds(p, rest);
    const x = clip(u, -36.04365338911715, 36.04365338911715);
    const s = Math.log(1 + Math.exp(-Math.abs(x)));
    const [a, b, c] = beta.abc;
    const y = a * (Math.min(x, 0) - s) + b * (Math.max(x, 0) + s) + c;
    return logistic(clip(y, -34.538776394910684, 34.538776394910684));
}

// The probability of a class, given its score and perhaps that of the rest.
function evaluateScore(table, p, rest, places) {
    if (table.type === "curve") return evaluateCurve(table, p, rest, places);
    if (table.type === "beta") return evaluateBeta(table, p, rest);
    if (table.type === "odds") {
        const q = evaluateScore(table.base, p, rest, places);
        return (table.odds * q) / (table.odds * q + (1 - q));
    }
    if (table.type === "clipping") {
        const q = Math.max(p, table.least);
        return q / (q + Math.max(rest === undefined ? 1 - p : rest, table.least));
    }
    throw new TypeError(`a map of one score has no type ${table.type}`);
}

// softmax(s(u) + W u + b) of tempered scores u.
function evaluateStructured(table, p) {
    let z;
    if (table.scores === "probability") {
        z = p.map((v) => Math.log(Math.max(v, Math.exp(table.floor))));
    } else if (table.unit !== undefined) {
        z = inUnit(p, table.unit, table.floor);
    } else {
        z = logSoftmax(p);
    }
    const q = softmax(z.map((v) => table.beta * Math.max(v, table.floor)));
    const u = q.map((v) => Math.log((1 - table.uniform) * v + table.uniform / q.length));
    const y = u.map((v, j) => {
        const [place, t] = findPiece(table.pieces, v);
        let value = cubic(table.pieces[place].slice(1), t) + table.intercepts[j];
        if (table.diagonal !== undefined) value += table.diagonal[j] * v;
        if (table.matrix !== undefined) value += table.matrix[j].reduce((sum, w, k) => sum + w * u[k], 0);
        return value;
    });
    return softmax(y);
}

// A map for each class, then normalize.
function evaluateOneVsRest(table, p, places) {
    if (table.logits === "tempered") p = inUnit(p, table.unit, table.floor);
    if (table.logits !== "as_given") p = softmax(p);
    const rest = table.scores === "probability" ? restOf(p) : [];
    return normalize(p.map((v, j) => evaluateScore(table.maps[j], v, rest[j], places)));
}

// A temperature and intercepts for each segment.
function evaluateClassEffects(table, p, places) {
    const base = evaluateRow(table.base, p, places);
    let effects = table.common;
    table.effects.forEach((column, c) => {
        effects = effects.map((v, k) => v + column[places[c]][k]);
    });
    const temperature = effects[effects.length - 1];
    const intercepts = effects.length > 1 ? effects : p.map(() => 0);
    return softmax(base.map((v, j) => temperature * Math.log(Math.max(v, 1e-15)) + intercepts[j]));
}

// Logits divided by a temperature.
function evaluateTemperature(table, p) {
    const z = table.scores === "probability" ? p.map((v) => Math.log(Math.max(v, 1e-9))) : p;
    const top = z.reduce((a, b) => Math.max(a, b));
    const d = z.map((v) => Math.max((v - top) / table.temperature, -34.538776394910684));
    return normalize(d.map(Math.exp));
}

// The probabilities of all classes, given the score of each.
function evaluateRow(table, p, places) {
    if (table.type === "one_vs_rest") return evaluateOneVsRest(table, p, places);
    if (table.type === "structured") return evaluateStructured(table, p);
    if (table.type === "class_effects") return evaluateClassEffects(table, p, places);
    if (table.type === "ratios") {
        const base = evaluateRow(table.base, p, places);
        return normalize(base.map((v, j) => table.ratios[j] * v));
    }
    if (table.type === "rates") return normalize(table.rates);
    if (table.type === "clipping") return normalize(p.map((v) => Math.max(v, table.least)));
    if (table.type === "temperature") return evaluateTemperature(table, p);
    throw new TypeError(`a map of several scores has no type ${table.type}`);
}

// The place of a segment, of which the last is for new segments; -1 for a wrong type.
function findSegment(column, label) {
    // Labels are compared by value: true is 1.
    if (typeof label === "boolean" || typeof label === "bigint") label = Number(label);
    const isMissing = label === undefined || label === null || Number.isNaN(label);
    const type = { text: "string", number: "number" }[column.labels];
    if (!isMissing && type !== undefined && typeof label !== type) return -1;
    return column.places.get(label) ?? column.places.size;
}

// Calibrate a score, or the array of scores of all classes. By has the segment of each
// column of segments, if there are any. What is not valid gives NaN.
function calibrate(p, ...by) {
    const m = MODEL.classes;
    let scores = m === 2 ? [p] : p;
    let valid = scores.length === (m === 2 ? 1 : m)
        && scores.every((v) => typeof v === "number" && MODEL.low <= v && v <= MODEL.high);
    if (valid && MODEL.scores === "probability") {
        valid = m === 2 || Math.abs(scores.reduce((sum, v) => sum + v, 0) - 1) <= 5e-3;
        scores = scores.map((v) => clip(v, 0, 1));
    }
    const places = (MODEL.segments ?? []).map((column, c) => findSegment(column, by[c]));
    if (!valid || places.includes(-1)) return m === 2 ? NaN : new Array(m).fill(NaN);
    if (m === 2) return evaluateScore(MODEL.map, scores[0], undefined, places);
    return evaluateRow(MODEL.map, scores, places);
}
