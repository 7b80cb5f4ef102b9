"""The contract for bad and odd input, tried on calspline and on other libraries.

Each probe hands a library one input of the contract through the library's own interface
and judges what comes back:

- *right*: the answer that the contract asks for, with a warning where it asks for one.
  Where it asks for an error, an answer is right too if the bad row is left out and
  every other answer is as without it, or if NaN in gives NaN out.
- *clear*: an error of any kind that names the problem, by a word of it in the message.
- *unclear*: any other exception, such as a look-up that fails somewhere inside, or no
  answer in a minute.
- *wrong*: an answer, without an error, that is not right: NaN, outside [0, 1], or far
  from what the same library says of the same rows in plain form.

A case is left out for a library whose interface has no such input (weights, several
classes; scikit-learn gets its scores from a model, so that they are never sparse nor of
three dimensions) or whose method cannot give the answer whatever its input (a
temperature has no intercept, so constant scores cannot become the base rate). Where a
library documents that any number is a score (margins, log-odds), numbers outside [0, 1]
may be taken for that; a few among many inside may not, if the library tells
probabilities and margins apart by looking at them. Bounds that only calspline promises
are not asked of others: answers of exactly 0 and 1 are right for them.
"""
