package cloudsigma_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"warrantgate.dev/internal/cloudhttp/cloudhttptest"
	"warrantgate.dev/internal/ownership"
)

// profileLife is repeated here so that a change fails the test.
const profileLife = 5 * time.Minute

func contextWithTimeout(t *testing.T, timeout time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	if timeout == time.Hour { // longer than the test
		return context.WithCancel(t.Context())
	}
	return context.WithTimeout(t.Context(), timeout)
}

func TestProfileIsCachedForMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		profiles := 0
		cloud := offline(t, answers{
			getServer: theServer(userID),
			getProfile: func(w http.ResponseWriter, r *http.Request) {
				profiles++
				theProfile()(w, r)
			},
		})
		defer cloud.Stop()
		start := time.Now()
		for _, step := range []struct {
			at   time.Duration
			want int
		}{{at: 0, want: 1}, {at: profileLife - time.Second, want: 1}, {at: profileLife + time.Second, want: 2}} {
			<-time.After(step.at - time.Since(start))
			expectOwned(t, cloud)
			if profiles != step.want {
				t.Errorf("after %s there were %d requests for the profile, want %d", step.at, profiles, step.want)
			}
		}
	})
}

func TestProfileOfAnotherUserIsNotCached(t *testing.T) {
	cloud := newCloud(t, cloudhttptest.Serve(t, answers{
		getServer: theServer(userID), getProfile: cloudhttptest.InTurn(aProfile(strangerID, "canary@example.com"), theProfile()),
	}), &fakeTokens{})
	if got, err := cloud.Ask(t.Context(), claim()); err == nil {
		t.Fatalf("Ask() = %v, want an error", got)
	}
	expectOwned(t, cloud)
}

func TestEachWaitForAProfileHasItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := offline(t, answers{getServer: theServer(userID), getProfile: cloudhttptest.InTurn(hang, theProfile())})
		defer cloud.Stop()
		type result struct {
			answer ownership.Answer
			err    error
		}
		ask := func(timeout time.Duration) <-chan result {
			done := make(chan result, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				answer, err := cloud.Ask(ctx, claim())
				done <- result{answer, err}
			}()
			synctest.Wait()
			return done
		}
		loading, hurried, patient := ask(2*time.Second), ask(time.Second), ask(3*time.Second)
		want := failure{Text: "Timeout: profile request: no answer in time"}
		expectFailure(t, (<-hurried).err, want)
		expectFailure(t, (<-loading).err, want)
		if r := <-patient; r.err != nil || r.answer.Verdict != ownership.Owned {
			t.Errorf("Ask() = %v, %v, want Owned: the deadline of another lookup must not apply", r.answer, r.err)
		}
	})
}
