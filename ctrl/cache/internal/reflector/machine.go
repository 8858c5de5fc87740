package reflector

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// state is the state of a reflector.
type state uint8

const (
	// empty: there is no list yet, or none from which a watch could continue.
	empty state = iota
	// streaming: a watch list is open and sends its initial events.
	streaming
	// listing: some pages of a list were received, more follow.
	listing
	// synced: the sink is up to date as of a known resource version; no watch is open.
	synced
	// watching: a watch is open and keeps the sink up to date.
	watching
	// backingOff: nothing is open; the next attempt is delayed.
	backingOff
)

func (s state) String() string {
	return [...]string{"empty", "streaming", "listing", "synced", "watching", "backing off"}[s]
}

// signal is an event that drives the state machine.
type signal uint8

const (
	// opened: the requested watch is open.
	opened signal = iota
	// pageReceived: a page of the list was received; input.next is the token of the next one.
	pageReceived
	// received: the watch delivered an object or a bookmark.
	received
	// listCompleted: the watch delivered the bookmark that ends its initial events.
	listCompleted
	// ended: the server ended the watch without an error.
	ended
	// failed: a request or a watch failed with an error that a retry may resolve.
	failed
	// expired: the server no longer has the requested resource version or page.
	expired
	// reset: as expired, and the server says why: it was reset.
	reset
	// decodingFailed: the watch delivered an event that cannot be decoded.
	decodingFailed
	// unsupported: the server does not support watch lists.
	unsupported
	// backOffElapsed: the delay is over.
	backOffElapsed
)

func (s signal) String() string {
	return [...]string{
		"opened", "page received", "received", "list completed", "ended",
		"failed", "expired", "reset", "decoding failed", "unsupported", "back-off elapsed",
	}[s]
}

// input is a signal with its parameters.
type input struct {
	signal signal
	// version is the resource version that was received, if any.
	version string
	// next is the continue token of the next page, if there is one.
	next string
	// stable is set if the watch was open for a while, so that its end does not count as another
	// consecutive failure.
	stable bool
}

// action is the next action of a reflector.
type action uint8

const (
	// stream opens a watch list.
	stream action = iota
	// list requests the page of machine.next, or the first one, with machine.listOptions.
	list
	// watch opens a watch from machine.version.
	watch
	// read reads the next event from the open watch.
	read
	// wait delays the next attempt: by machine.interval if that is set, otherwise by the number of
	// machine.consecutive failures.
	wait
)

func (a action) String() string {
	return [...]string{"stream", "list", "watch", "read", "wait"}[a]
}

// machine is the state that a reflector keeps between two steps. It is pure: step returns the next
// action, and the reflector performs it.
type machine struct {
	state state
	// resume is the state to continue from after backing off.
	resume state
	// version is the resource version up to which the sink was complete the last time, empty before
	// the first list.
	version string
	// next is the continue token of the page to request while listing.
	next string
	// failures counts consecutive failed attempts. A complete list resets it, and so does a watch that
	// delivers an event or is stable.
	failures int
	// fruitless counts consecutive lists that no watch has continued. A watch that delivers an event
	// or is stable resets it, and so does a reset of the server.
	fruitless int
	// resetVersion is the version of the last list that a reset discarded.
	resetVersion string
	// interval is the time from the end of the last list to the next one, while backing off without a
	// failure. It is zero otherwise.
	interval time.Duration
	// paging is set if lists are requested in pages: the server does not support watch lists, or
	// bookmarks, which end them, are not requested.
	paging bool
	// consistent is set if the server could not list from version, which it no longer has or does
	// not have yet, so that the next list must be a consistent read of the storage.
	consistent bool
	// paged is set if the server pages lists that its watch cache could serve: it has none.
	paged bool
	// unpaged is set if the token of a page has expired, so that the next list has one page.
	unpaged bool
}

// begin returns the first action from the current state.
func (m machine) begin() action {
	switch {
	case m.state == synced:
		return watch
	case m.paging:
		return list
	default:
		return stream
	}
}

// step returns the machine after a signal and the next action.
//
//	signal          empty           streaming      listing         synced     watching
//	opened          streaming       -              -               watching   -
//	pageReceived    listing|synced  -              listing|synced  -          -
//	received        -               streaming      -               -          watching
//	listCompleted   -               watching       -               -          -
//	ended           -               back off¹      -               -          synced|back off²
//	failed          back off¹       back off¹      back off¹       back off²  back off²
//	expired         empty³⁴|back off¹  empty³      empty³⁵         back off⁶  back off⁶
//	reset           back off⁷       back off⁷      back off⁷       back off⁷⁹ back off⁷⁹
//	decodingFailed  -               back off¹      -               -          back off¹⁸
//	unsupported     empty, paging   empty, paging  -               -          -
//
// ¹ and continue from empty; ² and continue from synced; ³ immediately on the first of consecutive
// failures, after backing off on further ones; ⁴ with a consistent list, if the last one was not;
// ⁵ with a list in one page; ⁶ and continue from empty: until an interval has passed since the last
// list if that was the first of consecutive fruitless ones, for longer with each further one; ⁷ and
// continue from empty, when a short interval has passed since the last list, without a failure; ⁸ after
// a fruitless list; ⁹ or as expired, if the last reset discarded the same version. While backing off,
// only backOffElapsed is valid. Any other signal panics.
func (m machine) step(in input) (machine, action) {
	if in.signal == reset && m.state != backingOff {
		return m.wasReset()
	}
	switch m.state {
	case backingOff:
		if in.signal == backOffElapsed {
			return m.enter(m.resume)
		}
	case empty:
		switch in.signal {
		case opened:
			return m.watchOpen(streaming, "")
		case pageReceived:
			return m.pageDone(in)
		case failed:
			return m.backOff(empty)
		case expired:
			if !m.paging || m.consistent {
				return m.backOff(empty)
			}
			m.consistent = true
			return m.restart()
		case unsupported:
			m.paging = true
			return m.enter(empty)
		}
	case streaming:
		switch in.signal {
		case received:
			return m.watchOpen(streaming, "")
		case listCompleted:
			m.failures = 0
			return m.watchOpen(watching, in.version)
		case expired:
			return m.restart()
		case ended, failed, decodingFailed:
			return m.backOff(empty)
		case unsupported:
			m.paging = true
			return m.enter(empty)
		}
	case listing:
		switch in.signal {
		case pageReceived:
			return m.pageDone(in)
		case failed:
			return m.backOff(empty)
		case expired:
			m.unpaged = true
			return m.restart()
		}
	case synced:
		switch in.signal {
		case opened:
			return m.watchOpen(watching, m.version)
		case failed:
			return m.backOff(synced)
		case expired:
			return m.relist()
		}
	case watching:
		if in.stable || in.signal == received {
			m.failures, m.fruitless = 0, 0
		}
		switch in.signal {
		case received:
			return m.watchOpen(watching, cmp.Or(in.version, m.version))
		case ended:
			if in.stable {
				return m.enter(synced)
			}
			return m.backOff(synced)
		case failed:
			return m.backOff(synced)
		case expired:
			return m.relist()
		case decodingFailed:
			m.fruitless++
			return m.backOff(empty)
		}
	}
	panic(fmt.Sprintf("reflector: %v while %v", in.signal, m.state))
}

// enter enters the state empty or synced and returns the first action from there.
func (m machine) enter(s state) (machine, action) {
	m.state, m.next, m.interval = s, "", 0
	return m, m.begin()
}

// watchOpen enters a state in which a watch is open.
func (m machine) watchOpen(s state, version string) (machine, action) {
	m.state, m.version = s, version
	return m, read
}

// pageDone processes a page of a list.
func (m machine) pageDone(in input) (machine, action) {
	if in.next != "" {
		if m.state == empty && !m.consistent {
			m.paged = true
		}
		m.state, m.next = listing, in.next
		return m, list
	}
	m.version, m.consistent, m.unpaged, m.failures = in.version, false, false, 0
	return m.enter(synced)
}

// listOptions returns the options of the next request of a list, as client-go's reflector has them.
// The first list has resource version 0, and the server's watch cache serves it. Later lists send the
// sink's version and no limit. The watch cache then answers, no older than the sink; a limit would
// make the server read its storage.
func (m machine) listOptions() metav1.ListOptions {
	opts := metav1.ListOptions{Limit: PageSize}
	switch {
	case m.next != "":
		opts.Continue = m.next
		return opts
	case m.consistent:
	case m.version == "":
		opts.ResourceVersion = "0"
	default:
		opts.ResourceVersion = m.version
		if !m.paged {
			opts.Limit = 0
		}
	}
	if m.unpaged {
		opts.Limit = 0
	}
	return opts
}

// restart begins a new list, after backing off if there were failures before.
func (m machine) restart() (machine, action) {
	if m.failures > 0 {
		return m.backOff(empty)
	}
	m.failures++
	return m.enter(empty)
}

// relist backs off before a new list, as a watch has not continued the last one. The delay grows as
// long as none does, or a server without a history would be listed all the time.
func (m machine) relist() (machine, action) {
	if m.fruitless++; m.fruitless > 1 {
		return m.backOff(empty)
	}
	return m.listAfter(minRelistInterval)
}

// wasReset backs off before a new list. A reset gives the server a new version, and the list follows
// soon. A server that discards a list of the same version once more was not reset: it is listed like one
// without a history.
func (m machine) wasReset() (machine, action) {
	if m.state == synced || m.state == watching {
		if m.version == m.resetVersion {
			return m.relist()
		}
		m.resetVersion = m.version
	}
	m.failures, m.fruitless = 0, 0
	return m.listAfter(minResetInterval)
}

// listAfter backs off until an interval has passed since the last list.
func (m machine) listAfter(interval time.Duration) (machine, action) {
	m.state, m.resume, m.interval = backingOff, empty, interval
	return m, wait
}

// consecutive returns the number of failures in a row, by which the next attempt is delayed.
func (m machine) consecutive() int { return max(m.failures, m.fruitless) }

// backOff delays the next attempt, which continues from a state.
func (m machine) backOff(resume state) (machine, action) {
	m.state, m.resume = backingOff, resume
	m.failures++
	return m, wait
}
