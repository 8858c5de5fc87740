package apiserver

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// suppressedErrors are parts of errors that k8s.io/apiserver reports and this server does not log: a client
// disconnected or does not read its response, a request continued after that, or an error is not a Status. The client
// gets the last kind verbatim; the error may quote the request, including a Secret.
var suppressedErrors = []string{
	"client disconnected",
	"http2: stream closed",
	"connection reset by peer",
	"broken pipe",
	"response: i/o timeout",
	"FinishRequest: post-timeout activity",
	"apiserver received an error that is not an metav1.Status",
}

// The JSON patch library copies without a limit unless the process sets one: 30 copy operations can double the size of
// an object 30 times. This is kube-apiserver's limit. A limit set by the program takes precedence.
func init() { atomic.CompareAndSwapInt64(&jsonpatch.AccumulatedCopySizeLimit, 0, maxRequestBody) }

// apimachinery reports errors to two handlers that are global to the process. The first logs. The second limits the
// rate: it sleeps until a millisecond after the last error in real time. In a testing/synctest bubble the clock begins
// in the year 2000, so the handler would sleep for decades.
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
