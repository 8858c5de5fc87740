package apiserver

import (
	"context"
	"slices"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// untold are parts of errors that upstream would log and nobody needs to know: that a client has left,
// which all do some time, and that a request went on after that; and an error of a request that is no
// Status, which its client is told word for word and which may quote the request, with the Secret that was
// in it.
var untold = []string{
	"client disconnected",
	"http2: stream closed",
	"connection reset by peer",
	"broken pipe",
	"FinishRequest: post-timeout activity",
	"apiserver received an error that is not an metav1.Status",
}

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
