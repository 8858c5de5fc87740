package apiserver

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// suppressedErrors are parts of errors that upstream reports and that are not logged: that a client
// has disconnected, or does not read its response, or that its request went on after that; and an
// error that is not a Status. The client gets the latter verbatim, and it may quote the request,
// with the Secret that was in it.
var suppressedErrors = []string{
	"client disconnected",
	"http2: stream closed",
	"connection reset by peer",
	"broken pipe",
	"response: i/o timeout",
	"FinishRequest: post-timeout activity",
	"apiserver received an error that is not an metav1.Status",
}

// Upstream's JSON patches copy without a limit unless the process sets one: 30 copy operations
// double the size of an object 30 times. This is kube-apiserver's limit. A limit that the program
// has set stays.
func init() { atomic.CompareAndSwapInt64(&jsonpatch.AccumulatedCopySizeLimit, 0, maxRequestBody) }

// Upstream reports errors to two handlers that are global to the process. The first logs. The
// second limits the rate, by sleeping until a millisecond after the last error in real time: in a
// testing/synctest bubble, whose clock begins in the year 2000, it would sleep for decades.
func init() {
	log := utilruntime.ErrorHandlers[0]
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{
		func(ctx context.Context, err error, msg string, keysAndValues ...any) {
			suppressed := func(part string) bool { return strings.Contains(err.Error(), part) }
			if err == nil || !slices.ContainsFunc(suppressedErrors, suppressed) {
				log(ctx, err, msg, keysAndValues...)
			}
		},
	}
}
