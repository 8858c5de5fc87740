// Package invariants switches on checks that are too expensive, or too harsh, for production: a
// violated invariant panics. They are on in builds with the tag "invariants" and in builds with the
// race detector, and cost nothing elsewhere, because Enabled is a constant.
package invariants

import "fmt"

// Assert panics with the formatted message if ok is false and the checks are on. A caller whose
// condition is itself expensive tests Enabled first.
func Assert(ok bool, format string, args ...any) {
	if Enabled && !ok {
		panic("invariant violated: " + fmt.Sprintf(format, args...))
	}
}
