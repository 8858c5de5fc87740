package etcdserver

import (
	"strings"

	"flyball.dev/storage"
)

// interval is a range of keys: from start up to, but not including, end. An empty end means no bound.
type interval struct{ start, end string }

// newInterval returns the keys that a request selects: a single key without a range end, all keys from key on if the range
// end is a zero byte.
func newInterval(key, rangeEnd []byte) interval {
	switch {
	case len(rangeEnd) == 0:
		return interval{string(key), string(key) + "\x00"}
	case len(rangeEnd) == 1 && rangeEnd[0] == 0:
		return interval{start: string(key)}
	}
	return interval{string(key), string(rangeEnd)}
}

// contains reports whether a key is in the interval.
func (i interval) contains(key string) bool { return key >= i.start && (i.end == "" || key < i.end) }

// query returns a query for the keys at a revision.
func (i interval) query(revision int64) storage.Query {
	return storage.Query{Start: i.start, End: i.end, Revision: uint64(max(revision, 0))}
}

// path returns the longest path that covers the interval.
func (i interval) path() string {
	if i.end == i.start+"\x00" && !strings.HasSuffix(i.start, "/") {
		return i.start
	}
	for n := len(i.start); i.end != ""; n-- {
		if n = strings.LastIndexByte(i.start[:n], '/'); n < 0 {
			break
		}
		if i.end <= i.start[:n]+string('/'+1) {
			return i.start[:n+1]
		}
	}
	return ""
}
