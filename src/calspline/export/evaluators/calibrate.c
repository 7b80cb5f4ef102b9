#include <math.h>
#include <stddef.h>
#include <string.h>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || defined(_M_FP_FAST)
#error "compile without -ffast-math and the like: with it, NaN would get a probability"
#endif

#ifndef CLASSES
#define CLASSES 2
#define COLUMNS 0
#define SCORES PROBABILITY
#define LOW (-0.0001)
#define HIGH 1.0001
#endif

enum type { CURVE, BETA, ODDS, CLIPPING, ONE_VS_REST, STRUCTURED, CLASS_EFFECTS, RATIOS, RATES, TEMPERATURE };
enum scores { PROBABILITY, MARGIN };
enum scale { IDENTITY, LOGIT, ASINH_LOGIT, COMPACT_LOGIT };
enum link { LINK_LOGIT, LINK_IDENTITY };
enum logits { AS_GIVEN, TEMPERED, SOFTMAX };

/* A map: what a type does not need is zero. */
struct table {
    enum type type;
    enum scores scores;
    enum scale scale;
    enum link link;
    enum logits logits;
    const struct table *base; /* the map that is wrapped, or the maps of all classes */
    double odds, least, floor, beta, uniform, unit, temperature;
    double origin, low, high, slope, scale_limits[2], abc[3];
    int n_pieces;
    const double *pieces; /* the start of each, and four coefficients */
    const double *intercepts, *diagonal, *matrix, *ratios, *rates, *common;
    int n_directions;
    const double *directions; /* four coefficients of each piece */
    const double *const *effects, *const *spread; /* by column of segments */
};

static const struct table MAP;

static double clip(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

/* Log-odds of a probability, given that of everything else; -1 if it is not known. */
static double log_odds(double p, double rest)
{
    double others = rest < 0.0 ? fmax(1.0 - p, 1e-16) : fmax(rest, 1e-300);
    return log(fmax(p, 1e-300)) - log(others);
}

static double logistic(double y)
{
    return 1.0 / (1.0 + exp(-y));
}

/* The place of a piece, and the distance from its start. */
static int find_piece(const struct table *table, double z, double *t)
{
    int low = 0, high = table->n_pieces;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (z < table->pieces[5 * middle])
            high = middle;
        else
            low = middle;
    }
    *t = clip(z - table->pieces[5 * low], -1e300, 1e300);
    return low;
}

/* A cubic, given its coefficients from the highest power on. */
static double cubic(const double *c, double t)
{
    return ((c[0] * t + c[1]) * t + c[2]) * t + c[3];
}

/* Transform a score to the scale of a curve. */
static double place_on_scale(const struct table *curve, double p, double rest)
{
    double low = curve->scale_limits[0], high = curve->scale_limits[1], share = p;
    if (curve->scale == IDENTITY)
        return p;
    if (curve->scale == LOGIT)
        return clip(log_odds(p, rest), low, high);
    if (curve->scale == ASINH_LOGIT)
        return 5.0 * asinh(log_odds(p, rest) / 5.0);
    if (rest >= 0.0)
        share = p / (p + rest);
    if (low <= share && share <= high && share < 1.0)
        return clip(curve->slope * log_odds(p, rest) + 0.5, low, high);
    return share;
}

/* Add the effects of segments; take those of new ones, at -1, towards zero. */
static double add_effects(const struct table *curve, double y, int piece, double t, const int *places)
{
    int n = curve->n_directions;
    double variance = 1.0;
    for (int c = 0; c < COLUMNS; c++)
        for (int k = 0; k < n; k++) {
            double r = cubic(curve->directions + 4 * (k * curve->n_pieces + piece), t);
            if (places[c] >= 0)
                y += curve->effects[c][places[c] * n + k] * r;
            else
                variance += curve->spread[c][k] * r * r;
        }
    return y / sqrt(variance);
}

/* A spline, with the effects of segments if it has any. */
static double evaluate_curve(const struct table *curve, double p, double rest, const int *places)
{
    double t, y;
    int piece = find_piece(curve, (place_on_scale(curve, p, rest) - curve->origin) / curve->unit, &t);
    y = cubic(curve->pieces + 5 * piece + 1, t);
    if (curve->n_directions)
        y = add_effects(curve, y, piece, t, places);
    y = clip(y, curve->low, curve->high);
    return curve->link == LINK_LOGIT ? logistic(y) : y;
}

static double evaluate_beta(const struct table *beta, double p, double rest)
{
    double x = clip(beta->scores == MARGIN ? p : log_odds(p, rest), -36.04365338911715, 36.04365338911715);
    double s = log(1.0 + exp(-fabs(x)));
    double y = beta->abc[0] * (fmin(x, 0.0) - s) + beta->abc[1] * (fmax(x, 0.0) + s) + beta->abc[2];
    return logistic(clip(y, -34.538776394910684, 34.538776394910684));
}

/* The probability of a class, given its score and perhaps that of the rest. */
static double evaluate_score(const struct table *table, double p, double rest, const int *places)
{
    double q;
    if (table->type == CURVE)
        return evaluate_curve(table, p, rest, places);
    if (table->type == BETA)
        return evaluate_beta(table, p, rest);
    if (table->type == ODDS) {
        q = evaluate_score(table->base, p, rest, places);
        return table->odds * q / (table->odds * q + (1.0 - q));
    }
    if (table->type != CLIPPING)
        return NAN;
    q = fmax(p, table->least);
    return q / (q + fmax(rest < 0.0 ? 1.0 - p : rest, table->least));
}

#if CLASSES == 2
static double calibrate_score(double p, const int *places)
{
    if (!(p >= LOW && p <= HIGH))
        return NAN;
    return evaluate_score(&MAP, SCORES == PROBABILITY ? clip(p, 0.0, 1.0) : p, -1.0, places);
}
#else
static double largest(const double *y)
{
    double top = y[0];
    for (int j = 1; j < CLASSES; j++)
        top = fmax(top, y[j]);
    return top;
}

/* Divide by the sum. */
static void normalize(double *q)
{
    double total = 0.0;
    for (int j = 0; j < CLASSES; j++)
        total += q[j];
    for (int j = 0; j < CLASSES; j++)
        q[j] /= total;
}

/* Positive numbers that sum to one, in the proportions of exp(y). */
static void softmax(double *y)
{
    double top = largest(y);
    for (int j = 0; j < CLASSES; j++)
        y[j] = exp(fmax(y[j] - top, -300.0));
    normalize(y);
}

/* Logarithms of the softmax. */
static void log_softmax(double *y)
{
    double top = largest(y), total = 0.0;
    for (int j = 0; j < CLASSES; j++)
        total += exp(y[j] - top);
    for (int j = 0; j < CLASSES; j++)
        y[j] = y[j] - top - log(total);
}

/* Logits times a unit, less the largest of them, none below a floor. */
static void take_in_unit(double *y, double unit, double floor)
{
    double top = largest(y);
    for (int j = 0; j < CLASSES; j++)
        y[j] = fmax(unit * (y[j] - top), floor);
}

/* The probability of all other classes. */
static void find_rest(const double *p, double *rest)
{
    int top = 0;
    double others = 0.0;
    for (int j = 1; j < CLASSES; j++)
        if (p[j] > p[top])
            top = j;
    for (int j = 0; j < CLASSES; j++) {
        rest[j] = 1.0 - p[j];
        if (j != top)
            others += p[j];
    }
    /* For the most probable class, 1 - p would round small probabilities away. */
    rest[top] = others;
}

/* softmax(s(u) + W u + b) of tempered scores u. */
static void evaluate_structured(const struct table *table, double *y)
{
    double u[CLASSES], t;
    if (table->scores == MARGIN && table->unit == 0.0)
        log_softmax(y);
    else if (table->scores == MARGIN)
        take_in_unit(y, table->unit, table->floor);
    for (int j = 0; j < CLASSES; j++) {
        double z = y[j];
        if (table->scores == PROBABILITY)
            z = log(fmax(z, exp(table->floor)));
        y[j] = table->beta * fmax(z, table->floor);
    }
    softmax(y);
    for (int j = 0; j < CLASSES; j++)
        u[j] = log((1.0 - table->uniform) * y[j] + table->uniform / CLASSES);
    for (int j = 0; j < CLASSES; j++) {
        int piece = find_piece(table, u[j], &t);
        y[j] = cubic(table->pieces + 5 * piece + 1, t) + table->intercepts[j];
        if (table->diagonal)
            y[j] += table->diagonal[j] * u[j];
        for (int k = 0; table->matrix && k < CLASSES; k++)
            y[j] += table->matrix[j * CLASSES + k] * u[k];
    }
    softmax(y);
}

/* A map for each class, then normalize. */
static void evaluate_one_vs_rest(const struct table *table, double *y, const int *places)
{
    double rest[CLASSES];
    if (table->logits == TEMPERED)
        take_in_unit(y, table->unit, table->floor);
    if (table->logits != AS_GIVEN)
        softmax(y);
    find_rest(y, rest);
    for (int j = 0; j < CLASSES; j++) {
        y[j] = evaluate_score(table->base + j, y[j], table->scores == PROBABILITY ? rest[j] : -1.0, places);
    }
    normalize(y);
}

static void evaluate_row(const struct table *table, double *y, const int *places);

/* A temperature and intercepts for each segment; those of new ones come last. */
static void evaluate_class_effects(const struct table *table, double *y, const int *places)
{
    int n = table->n_directions;
    double effects[CLASSES + 1] = {0.0};
    evaluate_row(table->base, y, places);
    for (int k = 0; k < n; k++) {
        effects[k] = table->common[k];
        for (int c = 0; c < COLUMNS; c++)
            effects[k] += places[c] >= 0 ? table->effects[c][places[c] * n + k] : table->spread[c][k];
    }
    for (int j = 0; j < CLASSES; j++)
        y[j] = effects[n - 1] * log(fmax(y[j], 1e-15)) + (n > 1 ? effects[j] : 0.0);
    softmax(y);
}

/* Replace the scores of all classes by their probabilities. */
static void evaluate_row(const struct table *table, double *y, const int *places)
{
    double top;
    switch (table->type) {
    case ONE_VS_REST:
        evaluate_one_vs_rest(table, y, places);
        return;
    case STRUCTURED:
        evaluate_structured(table, y);
        return;
    case CLASS_EFFECTS:
        evaluate_class_effects(table, y, places);
        return;
    case RATIOS:
        evaluate_row(table->base, y, places);
        for (int j = 0; j < CLASSES; j++)
            y[j] *= table->ratios[j];
        break;
    case RATES:
        for (int j = 0; j < CLASSES; j++)
            y[j] = table->rates[j];
        break;
    case CLIPPING:
        for (int j = 0; j < CLASSES; j++)
            y[j] = fmax(y[j], table->least);
        break;
    case TEMPERATURE:
        for (int j = 0; table->scores == PROBABILITY && j < CLASSES; j++)
            y[j] = log(fmax(y[j], 1e-9));
        top = largest(y);
        for (int j = 0; j < CLASSES; j++)
            y[j] = exp(fmax((y[j] - top) / table->temperature, -34.538776394910684));
        break;
    default:
        for (int j = 0; j < CLASSES; j++)
            y[j] = NAN;
    }
    normalize(y);
}

static void calibrate_row(const double *p, const int *places, double *out)
{
    double total = 0.0;
    int valid = 1;
    for (int j = 0; j < CLASSES; j++) {
        valid = valid && p[j] >= LOW && p[j] <= HIGH;
        total += p[j];
    }
    valid = valid && (SCORES == MARGIN || fabs(total - 1.0) <= 5e-3);
    for (int j = 0; j < CLASSES; j++)
        out[j] = !valid ? NAN : SCORES == PROBABILITY ? clip(p[j], 0.0, 1.0) : p[j];
    if (valid)
        evaluate_row(&MAP, out, places);
}
#endif

/* The place of a segment among those that are sorted, or -1 for a new one. */
#define FIND(name, type, order) \
    static int name(type label, const type *labels, const int *places, int n) \
    { \
        int low = 0, high = n; \
        while (low < high) { \
            int middle = (low + high) / 2; \
            if (order == 0) \
                return places[middle]; \
            if (order < 0) \
                high = middle; \
            else \
                low = middle + 1; \
        } \
        return -1; \
    }
typedef const char *text;
#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))
#ifdef TEXT_SEGMENTS
FIND(find_text, text, (label ? strcmp(label, labels[middle]) : -1))
#endif
#ifdef INTEGER_SEGMENTS
FIND(find_integer, long long, COMPARE(label, labels[middle]))
#endif
#ifdef NUMBER_SEGMENTS
FIND(find_number, double, (label == label ? COMPARE(label, labels[middle]) : -1))
#endif
