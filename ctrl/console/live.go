package console

import (
	"fmt"
	"net/http"
	"time"

	"flyball.dev/ctrl/internal/observe"
)

const (
	// liveInterval is the shortest time between two events of a stream. The longest is observe.HistoryStep: plots and the lengths of
	// queues change also while no reconcile ends.
	liveInterval = time.Second
	// slowReader is how long a client may take to read an event.
	slowReader = 10 * time.Second
)

// live serves a stream of server-sent events, one whenever the page may have changed. They have no data but a number:
// the client requests the page again.
func (c *Console) live(w http.ResponseWriter, r *http.Request) {
	select {
	case c.streams <- struct{}{}:
		defer func() { <-c.streams }()
	default:
		c.refuse(w, r, http.StatusServiceUnavailable, fmt.Sprintf("There are %d streams already.", maxStreams))
		return
	}
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(text string) bool {
		_ = control.SetWriteDeadline(time.Now().Add(slowReader)) // a server without deadlines needs none
		if _, err := fmt.Fprint(w, text); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	last := c.recorder.Changes()
	if !send(fmt.Sprintf("retry: 2000\nevent: change\ndata: %d\n\n", last)) {
		return
	}
	tick := time.NewTicker(liveInterval)
	defer tick.Stop()
	quiet := time.Duration(0)
	for {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
		quiet += liveInterval
		if now := c.recorder.Changes(); now != last || quiet >= observe.HistoryStep {
			last, quiet = now, 0
			if !send(fmt.Sprintf("event: change\ndata: %d\n\n", now)) {
				return
			}
		}
	}
}
