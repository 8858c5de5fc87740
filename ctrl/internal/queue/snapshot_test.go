package queue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"flyball.dev/ctrl/internal/cause"
)

// TestSnapshot looks at a queue with keys in every state, page by page.
func TestSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[string]{})
		defer q.ShutDown()
		why := &cause.Cause{Kind: cause.Updated}
		q.Add(0, 0, why, "process")
		q.Get()
		for i := range 5 {
			q.Add(0, 0, why, fmt.Sprint("ready", i))
			q.Add(time.Duration(5-i)*time.Minute, 0, nil, fmt.Sprint("waiting", 4-i))
		}
		q.Add(0, 7, why, "process")
		time.Sleep(time.Second)
		s := q.Snapshot(1, 2)
		if s.Ready != 6 || s.Waiting != 5 || s.Processing != 1 || s.Depth[7] != 1 || s.Oldest != time.Second {
			t.Errorf("the snapshot is %+v", s)
		}
		var got string
		for _, k := range append(s.ReadyKeys, s.WaitingKeys...) {
			got += k.Key + " "
		}
		if got != "ready1 ready2 waiting1 waiting2 " {
			t.Errorf("the page has %s", got)
		}
		if p := s.ProcessingKeys; len(p) != 1 || !p[0].Again || time.Since(p[0].Since) != time.Second {
			t.Errorf("in process: %+v", p)
		}
		for key, want := range map[string]string{"process": "processing", "ready0": "ready", "waiting3": "waiting", "absent": ""} {
			if k, state, ok := q.Find(key); state != want || ok != (want != "") || ok && k.Key != key {
				t.Errorf("%s is %s: %+v", key, state, k)
			}
		}
		if k, _, _ := q.Find("waiting0"); !k.Due.Equal(time.Now().Add(59 * time.Second)) {
			t.Errorf("due at %v", k.Due)
		}
	})
}
