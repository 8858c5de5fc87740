package apiserver

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// untold are parts of errors that upstream would log and nobody needs to know: that a client has left,
// which all do some time, or does not read its answer, and that a request went on after that; and an error of a request that is no
// Status, which its client is told word for word and which may quote the request, with the Secret that was
// in it.
var untold = []string{
	"client disconnected",
	"http2: stream closed",
	"connection reset by peer",
	"broken pipe",
	"response: i/o timeout",
	"FinishRequest: post-timeout activity",
	"apiserver received an error that is not an metav1.Status",
}

// The patches of upstream copy without a limit unless the process sets one: with 30 operations in a JSON
// patch an object doubles in size 30 times. This is the limit of a real server. A program that has set
// one of its own keeps it.
func init() { atomic.CompareAndSwapInt64(&jsonpatch.AccumulatedCopySizeLimit, 0, maxRequestBody) }

// Upstream reports errors to handlers that are global to the process. Of its two, the second makes
// whoever reports an error sleep until a millisecond after the last one. It remembers that in real time:
// in a testing/synctest bubble, where it is always the year 2000, it would sleep for decades. The first
// logs.
func init() {
	log := utilruntime.ErrorHandlers[0]
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{
		func(ctx context.Context, err error, msg string, keysAndValues ...any) {
			if err == nil || !slices.ContainsFunc(untold, func(s string) bool { return strings.Contains(err.Error(), s) }) {
				log(ctx, err, msg, keysAndValues...)
			}
		},
	}
}
