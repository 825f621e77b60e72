// Compares what gremlins found with the list of mutants that may survive. It takes the standard library only.
module warrantgate.dev/mutants

go 1.26.0
