# Usage: Rscript mgcv.R FOLDER
#
# For every data set N in FOLDER reads N-fit.csv (score, y), N-test.csv (score) and
# N-at.csv (score), fits penalised cubic regression splines in the log-odds of the score,
# and writes N-test-K.csv and N-at-K.csv (p) for each basis size K. What was fitted goes to
# fits.csv, the versions to versions.csv.

suppressPackageStartupMessages(library(mgcv))
options(warn = 2)  # a fit that mgcv warns of is no reference

folder <- commandArgs(trailingOnly = TRUE)[1]

calls <- list(
  "10" = quote(gam(y ~ s(x, bs = "cr"), family = binomial, data = d, method = "REML")),  # mgcv's default k
  "24" = quote(gam(y ~ s(x, bs = "cr", k = 24), family = binomial, data = d, method = "REML"))
)

path <- function(...) file.path(folder, paste0(...))
read <- function(...) {
  d <- read.csv(path(...), colClasses = "numeric")
  d$x <- qlogis(d$score)
  d
}
write <- function(p, ...) writeLines(c("p", sprintf("%.17g", p)), path(...))

names <- sub("-fit\\.csv$", "", list.files(folder, pattern = "-fit\\.csv$"))
fits <- NULL
for (name in names) {
  d <- read(name, "-fit.csv")
  for (k in names(calls)) {
    fit <- eval(calls[[k]])
    stopifnot(fit$converged, fit$smooth[[1]]$bs.dim == as.integer(k))
    for (part in c("test", "at")) {
      write(predict(fit, read(name, "-", part, ".csv"), type = "response"), name, "-", part, "-", k, ".csv")
    }
    fits <- rbind(fits, data.frame(
      name = name, k = k, edf = sum(fit$edf), sp = fit$sp, call = paste(deparse(calls[[k]], 200), collapse = "")
    ))
  }
}
write.csv(fits, path("fits.csv"), row.names = FALSE)
write.csv(
  data.frame(R = as.character(getRversion()), mgcv = as.character(packageVersion("mgcv"))),
  path("versions.csv"), row.names = FALSE
)
