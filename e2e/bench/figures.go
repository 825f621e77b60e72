package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// figures prints figures, each with a bound, and records those that miss it.
type figures struct {
	writer io.Writer
	errs   []error
}

func (f *figures) show(name string, value float64, unit string) {
	fmt.Fprintf(f.writer, "%s %s %s\n", name, format(value), unit)
}

// atMost prints a figure with an upper bound.
func (f *figures) atMost(name string, value float64, unit string, bound float64) {
	f.show(name, value, unit)
	if !(value <= bound) { // so that NaN misses the bound too
		f.errs = append(f.errs, fmt.Errorf("%s is %s %s, more than %s", name, format(value), unit, format(bound)))
	}
}

// atLeast prints a figure with a lower bound.
func (f *figures) atLeast(name string, value float64, unit string, bound float64) {
	f.show(name, value, unit)
	if !(value >= bound) {
		f.errs = append(f.errs, fmt.Errorf("%s is %s %s, less than %s", name, format(value), unit, format(bound)))
	}
}

// exactly prints a figure with an exact value.
func (f *figures) exactly(name string, value float64, unit string, want float64) {
	f.atLeast(name, value, unit, want)
	if value > want {
		f.errs = append(f.errs, fmt.Errorf("%s is %s %s, more than %s", name, format(value), unit, format(want)))
	}
}

// missed returns an error with the name of each figure that missed its bound.
func (f *figures) missed() error { return errors.Join(f.errs...) }

// format formats a value with its significant digits.
func format(value float64) string {
	decimals := 0
	switch {
	case value < 10:
		decimals = 3
	case value < 1000:
		decimals = 1
	}
	return strconv.FormatFloat(value, 'f', decimals, 64)
}

// quantile returns the value that a share of q of all values do not exceed.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

func median(values []float64) float64 { return quantile(values, 0.5) }
