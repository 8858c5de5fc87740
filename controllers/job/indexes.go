package job

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// interval is a range of completion indexes, both ends included.
type interval struct{ first, last int }

// indexes is a set of completion indexes: intervals in ascending order with a gap between any two.
//
//upstream:pkg/controller/job.orderedIntervals
type indexes []interval

// parseIndexes parses a list such as "1,3-5,7", as in the status of Jobs and in success policies. It skips indexes from
// completions on, and parts that are neither a number nor a range.
//
//upstream:pkg/controller/job.parseIndexesFromString
func parseIndexes(list string, completions int) indexes {
	var parsed indexes
	for part := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		last := first
		if ranged {
			if last, err = strconv.Atoi(to); err != nil {
				continue
			}
		}
		if last = min(last, completions-1); 0 <= first && first <= last {
			parsed = append(parsed, interval{first, last})
		}
	}
	return parsed.normalized()
}

// indexesOf returns the set of some indexes, in any order.
func indexesOf(list ...int) indexes {
	x := make(indexes, len(list))
	for i, n := range list {
		x[i] = interval{n, n}
	}
	return x.normalized()
}

// normalized sorts the intervals in place, and merges intervals that overlap or adjoin.
func (x indexes) normalized() indexes {
	slices.SortFunc(x, func(a, b interval) int { return cmp.Compare(a.first, b.first) })
	merged := x[:0]
	for _, i := range x {
		if n := len(merged); n > 0 && i.first <= merged[n-1].last+1 {
			merged[n-1].last = max(merged[n-1].last, i.last)
		} else {
			merged = append(merged, i)
		}
	}
	return merged
}

// union returns the indexes of any of the sets.
func (x indexes) union(others ...indexes) indexes {
	return slices.Concat(append([]indexes{x}, others...)...).normalized()
}

// has reports whether an index is in the set.
func (x indexes) has(index int) bool {
	i, ok := slices.BinarySearchFunc(x, index, func(i interval, n int) int { return cmp.Compare(i.first, n) })
	return ok || i > 0 && index <= x[i-1].last
}

// count returns the number of indexes.
func (x indexes) count() (n int) {
	for _, i := range x {
		n += i.last - i.first + 1
	}
	return n
}

// common returns the number of indexes that are also in another set.
func (x indexes) common(y indexes) int { return x.count() + y.count() - x.union(y).count() }

// missing returns the first n indexes below completions that are not in the set.
//
//upstream:pkg/controller/job.firstPendingIndexes
func (x indexes) missing(n, completions int) []int {
	var list []int
	next := 0
	for _, i := range append(slices.Clone(x), interval{completions, completions}) {
		for ; next < min(i.first, completions) && len(list) < n; next++ {
			list = append(list, next)
		}
		next = i.last + 1
	}
	return list
}

// String returns the set in the format of [parseIndexes]. A comma separates two adjoining indexes.
//
//upstream:pkg/controller/job.orderedIntervals.String
func (x indexes) String() string {
	var b strings.Builder
	for n, i := range x {
		if n > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(i.first))
		switch {
		case i.last == i.first+1:
			b.WriteByte(',')
		case i.last > i.first:
			b.WriteByte('-')
		default:
			continue
		}
		b.WriteString(strconv.Itoa(i.last))
	}
	return b.String()
}
