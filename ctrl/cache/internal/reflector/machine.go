package reflector

import (
	"cmp"
	"fmt"
)

// state is where a reflector stands.
type state uint8

const (
	// empty: what is held, if anything, cannot be brought up to date by a watch.
	empty state = iota
	// streaming: a watch is open that begins with the whole list.
	streaming
	// listing: some pages of a list have come, more are to come.
	listing
	// synced: what is held is as of a known version; no watch is open.
	synced
	// watching: a watch is open and keeps what is held up to date.
	watching
	// backingOff: nothing is open; the next attempt must wait.
	backingOff
)

func (s state) String() string {
	return [...]string{"empty", "streaming", "listing", "synced", "watching", "backing off"}[s]
}

// signal is what can happen to a reflector.
type signal uint8

const (
	// opened: the watch that was asked for is open.
	opened signal = iota
	// pageReceived: a page of the list came; input.next names the following one.
	pageReceived
	// received: the watch told of an object or of its progress.
	received
	// listCompleted: the watch told that the list it began with has ended.
	listCompleted
	// ended: the server ended the watch in good order.
	ended
	// failed: a request or a watch failed in a way that another try may mend.
	failed
	// expired: the server no longer has the version, or the page, that was asked for.
	expired
	// decodingFailed: the watch told something that could not be read.
	decodingFailed
	// unsupported: the server does not offer streaming lists.
	unsupported
	// backOffElapsed: the time to wait is over.
	backOffElapsed
)

func (s signal) String() string {
	return [...]string{"opened", "paged", "told", "complete", "ended", "failed", "gone", "garbled", "unsupported", "waited"}[s]
}

// input is a signal and what came with it.
type input struct {
	signal signal
	// version is the resource version that was told, if any.
	version string
	// next names the following page, if there is one.
	next string
	// stable is set if the watch was open for a while, so that its end is not
	// one more failure in a row.
	stable bool
}

// action is what a reflector has to do next.
type action uint8

const (
	// stream opens a watch that begins with the list.
	stream action = iota
	// list asks for the page named by machine.next, or for the first one.
	list
	// watch opens a watch from machine.version.
	watch
	// read takes the next event from the open watch.
	read
	// wait lets machine.failures decide how long to wait.
	wait
)

func (a action) String() string {
	return [...]string{"stream", "list", "watch", "read", "wait"}[a]
}

// machine is all that a reflector has to remember between two steps. It does no
// work itself: step says what comes next, and the reflector does it.
type machine struct {
	state state
	// resume is the state to go on from after backing off.
	resume state
	// version is the resource version of what is held.
	version string
	// next names the page to ask for while listing.
	next string
	// failures counts the attempts that have failed in a row; a watch that
	// tells something, or lasts, ends the row.
	failures int
	// paging is set if lists come in pages because the server does not stream.
	paging bool
}

// begin returns the first action from the present state.
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

// step returns the machine after a signal and what it has to do.
//
//	          opened     paged           told      complete  ended            failed     gone       garbled    unsupported
//	empty     streaming  listing|synced  -         -         -                back off¹  back off¹  -          empty, paging
//	streaming -          -               streaming watching  back off¹        back off¹  back off¹  back off¹  empty, paging
//	listing   -          listing|synced  -         -         -                back off¹  empty³     -          -
//	synced    watching   -               -         -         -                back off²  empty³     -          -
//	watching  -          -               watching  -         synced|back off² back off²  empty³     back off¹  -
//
// ¹ and then from empty; ² and then from synced; ³ at once the first time in a
// row of failures, after backing off from then on. A machine that is backing
// off takes only waited. Everything else is a mistake of the caller.
func (m machine) step(in input) (machine, action) {
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
		case failed, expired:
			return m.backOff(empty)
		case unsupported:
			m.paging = true
			return m.enter(empty)
		}
	case streaming:
		switch in.signal {
		case received:
			return m.watchOpen(streaming, "")
		case listCompleted:
			return m.watchOpen(watching, in.version)
		case ended, failed, expired, decodingFailed:
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
			return m.restart()
		}
	case synced:
		switch in.signal {
		case opened:
			return m.watchOpen(watching, m.version)
		case failed:
			return m.backOff(synced)
		case expired:
			return m.restart()
		}
	case watching:
		if in.stable || in.signal == received {
			m.failures = 0
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
			return m.restart()
		case decodingFailed:
			return m.backOff(empty)
		}
	}
	panic(fmt.Sprintf("reflector: %v while %v", in.signal, m.state))
}

// enter enters empty or synced and begins from there.
func (m machine) enter(s state) (machine, action) {
	m.state, m.next = s, ""
	return m, m.begin()
}

// watchOpen enters a state in which a watch is open.
func (m machine) watchOpen(s state, version string) (machine, action) {
	m.state, m.version = s, version
	return m, read
}

// pageDone takes a page of a list.
func (m machine) pageDone(in input) (machine, action) {
	m.version, m.next = in.version, in.next
	if m.next != "" {
		m.state = listing
		return m, list
	}
	return m.enter(synced)
}

// restart begins a new list.
func (m machine) restart() (machine, action) {
	if m.failures > 0 {
		return m.backOff(empty)
	}
	m.failures++
	return m.enter(empty)
}

// backOff waits before it goes on from a state.
func (m machine) backOff(resume state) (machine, action) {
	m.state, m.resume = backingOff, resume
	m.failures++
	return m, wait
}
