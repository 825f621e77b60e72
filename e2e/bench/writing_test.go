package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWritesArePaced(t *testing.T) {
	errFull := errors.New("full")
	took := func(each time.Duration, err error) func(context.Context) error {
		return func(ctx context.Context) error { return errors.Join(pause(ctx, each), err) }
	}
	for name, tc := range map[string]struct {
		writers    []func(context.Context) error
		want       []float64 // milliseconds, in order
		wantFailed int
	}{
		"each writes once in an interval":            {writers: []func(context.Context) error{took(0, nil), took(0, nil)}, want: []float64{0, 0, 0, 0, 0, 0}},
		"one that fails continues":                   {writers: []func(context.Context) error{took(time.Millisecond, errFull)}, want: []float64{1, 1, 1}, wantFailed: 3},
		"one that takes longer delays the next ones": {writers: []func(context.Context) error{took(1500*time.Millisecond, nil)}, want: []float64{1500, 2000, 2500}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				round := writePaced(t.Context(), tc.writers, time.Second, 3*time.Second)
				slices.Sort(round.millis)
				if diff := cmp.Diff(tc.want, round.millis); diff != "" {
					t.Errorf("milliseconds (-want +got):\n%s", diff)
				}
				if round.dropped != tc.wantFailed {
					t.Errorf("%d failed, want %d", round.dropped, tc.wantFailed)
				}
			})
		})
	}
}

func TestAddedTimeIsTheMedianOfTheRounds(t *testing.T) {
	with, without := [][]float64{{1, 5}, {1, 90}, {1, 7}}, [][]float64{{1, 2}, {1, 8}, {1, 3}}
	if got := added(with, without, 1); got != 4 {
		t.Errorf("added() = %v, want 4", got)
	}
}
