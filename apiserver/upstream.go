package apiserver

import (
	"context"
	"slices"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// untold begin what upstream would log and nobody needs to know: that a request went on after its client
// had left, which is what happens at every stop; and an error of a request that is no Status, which its
// client is told word for word and which may quote the request, with the Secret that was in it.
var untold = []string{
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
			if err == nil || !slices.ContainsFunc(untold, func(s string) bool { return strings.HasPrefix(err.Error(), s) }) {
				log(ctx, err, msg, keysAndValues...)
			}
		},
	}
}
