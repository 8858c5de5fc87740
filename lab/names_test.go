package lab

import "testing"

// TestNames: an object has the same canonical name whether its event or the response to its create comes first.
func TestNames(t *testing.T) {
	for _, tc := range []struct {
		name         string
		awaited      int
		event, first bool // an event, and that before the response
		want         string
	}{
		{"response", 1, false, false, "default/web-*1"},
		{"response, event", 1, true, false, "default/web-*1"},
		{"event, response", 1, true, true, "default/web-*1"},
		{"another one's name", 0, true, true, "default/web-x7k2p"},
	} {
		n := newNames()
		n.await("pods", "default", "web-", tc.awaited)
		if tc.event && tc.first {
			n.seen("pods", "default", "web-", "web-x7k2p")
			if got := n.canonical("pods", "default", "web-x7k2p"); got != tc.want {
				t.Errorf("%s: the event is of %q, want %q", tc.name, got, tc.want)
			}
		}
		if tc.awaited > 0 {
			n.generated("pods", "default", "web-", "web-x7k2p")
			n.await("pods", "default", "web-", -1)
		}
		if tc.event && !tc.first {
			n.seen("pods", "default", "web-", "web-x7k2p")
		}
		if got := n.canonical("pods", "default", "web-x7k2p"); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		n.seen("pods", "default", "web-", "web-0") // as of a StatefulSet, after the create has ended
		if got := n.canonical("pods", "default", "web-0"); got != "default/web-0" {
			t.Errorf("%s: another Pod is %q", tc.name, got)
		}
	}
}
