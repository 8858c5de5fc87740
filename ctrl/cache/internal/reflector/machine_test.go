package reflector

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Every cell of the transition table.
func TestStep(t *testing.T) {
	v1, v2 := machine{version: "1"}, machine{version: "2"}
	in := func(m machine, s state) machine { m.state = s; return m }
	failures := func(m machine, n int) machine { m.failures = n; return m }
	fruitless := func(m machine, n int) machine { m.fruitless = n; return m }
	discarded := func(m machine) machine { m.resetVersion = m.version; return m }
	consistent := func(m machine) machine { m.consistent = true; return m }
	paged := func(m machine) machine { m.paged = true; return m }
	unpaged := func(m machine) machine { m.unpaged = true; return m }
	paging := func(m machine) machine { m.paging = true; return m }
	next := func(m machine, page string) machine { m.next = page; return m }
	backing := func(m machine, resume state, failures int) machine {
		m.state, m.resume, m.failures = backingOff, resume, failures
		return m
	}
	spaced := func(m machine, interval time.Duration) machine {
		m.state, m.resume, m.interval = backingOff, empty, interval
		return m
	}
	var zero machine

	tests := []struct {
		from machine
		in   input
		want machine
		then action
	}{
		{in(zero, empty), input{signal: opened}, in(zero, streaming), read},
		{paging(zero), input{signal: pageReceived, version: "1"}, paging(in(v1, synced)), watch},
		{paging(zero), input{signal: pageReceived, version: "1", next: "p"}, next(paged(paging(in(zero, listing))), "p"), list},
		{consistent(paging(v1)), input{signal: pageReceived, version: "2", next: "p"}, next(consistent(paging(in(v1, listing))), "p"), list},
		{unpaged(consistent(paging(v1))), input{signal: pageReceived, version: "2"}, paging(in(v2, synced)), watch},
		{paging(zero), input{signal: expired}, failures(consistent(paging(zero)), 1), list},
		{failures(paging(v1), 1), input{signal: expired}, backing(consistent(paging(v1)), empty, 2), wait},
		{consistent(paging(zero)), input{signal: expired}, backing(consistent(paging(zero)), empty, 1), wait},
		{in(zero, empty), input{signal: failed}, backing(zero, empty, 1), wait},
		{in(zero, empty), input{signal: expired}, backing(zero, empty, 1), wait},
		{failures(in(zero, empty), 2), input{signal: reset}, spaced(zero, minResetInterval), wait},
		{in(zero, empty), input{signal: unsupported}, paging(zero), list},

		{in(zero, streaming), input{signal: received, version: "1"}, in(zero, streaming), read},
		{in(zero, streaming), input{signal: listCompleted, version: "1"}, in(v1, watching), read},
		{failures(in(zero, streaming), 2), input{signal: listCompleted, version: "1"}, in(v1, watching), read},
		{fruitless(in(zero, streaming), 2), input{signal: listCompleted, version: "1"}, fruitless(in(v1, watching), 2), read},
		{in(zero, streaming), input{signal: ended}, backing(zero, empty, 1), wait},
		{in(zero, streaming), input{signal: failed}, backing(zero, empty, 1), wait},
		{in(zero, streaming), input{signal: expired}, failures(zero, 1), stream},
		{failures(in(zero, streaming), 1), input{signal: expired}, backing(zero, empty, 2), wait},
		{failures(in(zero, streaming), 1), input{signal: reset}, spaced(zero, minResetInterval), wait},
		{in(zero, streaming), input{signal: decodingFailed}, backing(zero, empty, 1), wait},
		{in(zero, streaming), input{signal: unsupported}, paging(zero), list},

		{next(paging(in(v1, listing)), "p"), input{signal: pageReceived, version: "1", next: "q"}, next(paging(in(v1, listing)), "q"), list},
		{next(paging(in(v1, listing)), "p"), input{signal: pageReceived, version: "1"}, paging(in(v1, synced)), watch},
		{next(failures(paging(in(v1, listing)), 3), "p"), input{signal: pageReceived, version: "1"}, paging(in(v1, synced)), watch},
		{next(paging(in(v1, listing)), "p"), input{signal: failed}, next(backing(paging(v1), empty, 1), "p"), wait},
		{next(paging(in(v1, listing)), "p"), input{signal: expired}, failures(unpaged(paging(in(v1, empty))), 1), list},
		{next(failures(paging(in(v1, listing)), 1), "p"), input{signal: reset}, next(spaced(paging(v1), minResetInterval), "p"), wait},
		{next(failures(paging(in(v1, listing)), 1), "p"), input{signal: expired}, next(backing(unpaged(paging(v1)), empty, 2), "p"), wait},

		{in(v1, synced), input{signal: opened}, in(v1, watching), read},
		{failures(in(v1, synced), 3), input{signal: opened}, failures(in(v1, watching), 3), read},
		{in(v1, synced), input{signal: failed}, backing(v1, synced, 1), wait},
		{in(v1, synced), input{signal: expired}, fruitless(spaced(v1, minRelistInterval), 1), wait},
		{failures(fruitless(in(v1, synced), 1), 1), input{signal: reset}, discarded(spaced(v1, minResetInterval)), wait},
		{discarded(in(v1, synced)), input{signal: reset}, fruitless(discarded(spaced(v1, minRelistInterval)), 1), wait},
		{fruitless(in(v1, synced), 1), input{signal: expired}, fruitless(backing(v1, empty, 1), 2), wait},

		{in(v1, watching), input{signal: received, version: "2"}, in(v2, watching), read},
		{in(v1, watching), input{signal: received}, in(v1, watching), read},
		{failures(in(v1, watching), 4), input{signal: received, version: "2"}, in(v2, watching), read},
		{in(v1, watching), input{signal: ended}, backing(v1, synced, 1), wait},
		{failures(in(v1, watching), 4), input{signal: ended, stable: true}, in(v1, synced), watch},
		{in(v1, watching), input{signal: failed}, backing(v1, synced, 1), wait},
		{failures(in(v1, watching), 4), input{signal: failed, stable: true}, backing(v1, synced, 1), wait},
		{fruitless(in(v1, watching), 4), input{signal: received, version: "2"}, in(v2, watching), read},
		{in(v1, watching), input{signal: expired}, fruitless(spaced(v1, minRelistInterval), 1), wait},
		{failures(in(v1, watching), 1), input{signal: expired}, failures(fruitless(spaced(v1, minRelistInterval), 1), 1), wait},
		{fruitless(in(v1, watching), 1), input{signal: expired}, fruitless(backing(v1, empty, 1), 2), wait},
		{fruitless(in(v1, watching), 1), input{signal: expired, stable: true}, fruitless(spaced(v1, minRelistInterval), 1), wait},
		{fruitless(failures(in(v1, watching), 3), 1), input{signal: reset}, discarded(spaced(v1, minResetInterval)), wait},
		{discarded(in(v1, watching)), input{signal: reset}, fruitless(discarded(spaced(v1, minRelistInterval)), 1), wait},
		{in(v1, watching), input{signal: decodingFailed}, fruitless(backing(v1, empty, 1), 1), wait},
		{fruitless(in(v1, watching), 4), input{signal: decodingFailed}, fruitless(backing(v1, empty, 1), 5), wait},

		{fruitless(spaced(v1, minRelistInterval), 1), input{signal: backOffElapsed}, fruitless(in(v1, empty), 1), stream},
		{backing(zero, empty, 1), input{signal: backOffElapsed}, failures(zero, 1), stream},
		{paging(backing(zero, empty, 1)), input{signal: backOffElapsed}, paging(failures(zero, 1)), list},
		{next(backing(paging(v1), empty, 1), "p"), input{signal: backOffElapsed}, failures(paging(in(v1, empty)), 1), list},
		{backing(v1, synced, 1), input{signal: backOffElapsed}, failures(in(v1, synced), 1), watch},
	}
	for _, test := range tests {
		// resume has no meaning in other states.
		got, then := test.from.step(test.in)
		if got.state != backingOff {
			got.resume = test.want.resume
		}
		if got != test.want || then != test.then {
			t.Errorf("%+v on %v: got %+v, %v, want %+v, %v", test.from, test.in, got, then, test.want, test.then)
		}
	}
}

// Whatever a server answers, and whenever, it is listed less and less often until there is progress: a watch
// that delivers something or lasts, or a reset, after which the server has another version.
func TestListsAreBounded(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := machine{paging: r.IntN(2) == 0}
		next := m.begin()
		// The time since the last list, the lists without progress, and whether there was a reset since.
		since, fruitless, wasReset := time.Duration(0), 0, true
		version, discarded := 1, 0
		for range 1000 {
			var in input
			switch next {
			case list:
				in = input{signal: choose(r, pageReceived, pageReceived, failed, expired, reset), version: fmt.Sprint(version)}
			case stream, watch:
				in.signal = choose(r, opened, opened, failed, expired, reset)
			case read:
				in.signal = choose(r, received, ended, failed, expired, expired, reset, decodingFailed)
				in.version, in.stable = m.version, r.IntN(20) == 0
				if m.state == streaming && r.IntN(2) == 0 {
					in = input{signal: listCompleted, version: fmt.Sprint(version)}
				}
			case wait:
				in.signal = backOffElapsed
				if m.interval > 0 {
					since = max(since, m.interval)
				} else {
					since += backOffDelay(m.consecutive())
				}
			}
			if listed := m.state == synced || m.state == watching; in.signal == reset && (!listed || version != discarded) {
				fruitless, wasReset = 0, true
				if listed {
					discarded = version
				}
				version += r.IntN(2)
			} else if m.state == watching && (in.signal == received || in.stable) {
				fruitless = 0
			}
			m, next = m.step(in)
			if in.signal != pageReceived && in.signal != listCompleted {
				continue
			}
			if least := backOffDelay(max(fruitless, 1)); since < least && !wasReset {
				t.Fatalf("seed %d: a list %s after the last one, want %s after %d without progress: %+v", seed, since, least, fruitless, m)
			}
			since, fruitless, wasReset = 0, fruitless+1, false
		}
	}
}

func choose(r *rand.Rand, signals ...signal) signal { return signals[r.IntN(len(signals))] }

// The options of a list let a server without streaming lists use its watch cache.
func TestListOptions(t *testing.T) {
	tests := []struct {
		name string
		machine
		want metav1.ListOptions
	}{
		{"first", machine{}, metav1.ListOptions{ResourceVersion: "0", Limit: PageSize}},
		{"next page", machine{next: "p", version: "7"}, metav1.ListOptions{Continue: "p", Limit: PageSize}},
		{"again", machine{version: "7"}, metav1.ListOptions{ResourceVersion: "7"}},
		{"again, without a watch cache", machine{version: "7", paged: true}, metav1.ListOptions{ResourceVersion: "7", Limit: PageSize}},
		{"the version is not there", machine{version: "7", consistent: true}, metav1.ListOptions{Limit: PageSize}},
		{"a page has expired", machine{unpaged: true}, metav1.ListOptions{ResourceVersion: "0"}},
		{"a page of a consistent list has expired", machine{consistent: true, unpaged: true}, metav1.ListOptions{}},
	}
	for _, test := range tests {
		if got := test.listOptions(); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
}

// Errors are mapped to signals depending on the state.
func TestClassify(t *testing.T) {
	status := func(code int32, reason metav1.StatusReason, cause metav1.CauseType) error {
		s := metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Details: &metav1.StatusDetails{}}
		if cause != "" {
			s.Details.Causes = []metav1.StatusCause{{Type: cause}}
		}
		return &apierrors.StatusError{ErrStatus: s}
	}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
	decodingError := status(http.StatusInternalServerError, metav1.StatusReasonInternalError, "ClientWatchDecoding")
	tests := []struct {
		name  string
		err   error
		state machine
		want  signal
	}{
		{"expired", apierrors.NewResourceExpired("old"), machine{state: synced}, expired},
		//lint:ignore SA1019 servers still return it
		{"gone", apierrors.NewGone("old"), machine{state: watching}, expired},
		{"reset", status(http.StatusGone, metav1.StatusReasonExpired, causeReset), machine{state: watching}, reset},
		{"resource version too large", status(504, metav1.StatusReasonTimeout, metav1.CauseTypeResourceVersionTooLarge), machine{state: synced}, expired},
		{"resource version too large, old server", apierrors.NewTimeoutError("Too large resource version: 5, current: 4", 1), machine{state: empty, paging: true}, expired},
		{"no watch list", invalid, machine{state: empty}, unsupported},
		{"no watch list, reported late", invalid, machine{state: streaming}, unsupported},
		{"bad page", invalid, machine{state: empty, paging: true}, failed},
		{"no watch", invalid, machine{state: synced}, failed},
		{"decoding error", decodingError, machine{state: watching}, decodingFailed},
		{"decoding error in a watch list", decodingError, machine{state: streaming}, decodingFailed},
		{"missing", apierrors.NewNotFound(schema.GroupResource{}, ""), machine{state: empty}, failed},
		{"forbidden", apierrors.NewForbidden(schema.GroupResource{}, "", nil), machine{state: empty}, failed},
		{"throttled", apierrors.NewTooManyRequests("slow down", 1), machine{state: synced}, failed},
		{"no connection", errors.New("connection refused"), machine{state: synced}, failed},
	}
	for _, test := range tests {
		if got := classify(test.err, test.state); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func TestInvalidSignalPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	machine{state: backingOff}.step(input{signal: received})
}
