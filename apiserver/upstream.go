package apiserver

import (
	"context"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Upstream reports errors to handlers that are global to the process. Of its two, the second makes
// whoever reports an error sleep until a millisecond after the last one. It remembers that in real time:
// in a testing/synctest bubble, where it is always the year 2000, it would sleep for decades. The first
// logs, also that a request went on after its client had left, which is what happens at every stop.
func init() {
	log := utilruntime.ErrorHandlers[0]
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{
		func(ctx context.Context, err error, msg string, keysAndValues ...any) {
			if err == nil || !strings.HasPrefix(err.Error(), "FinishRequest: post-timeout activity") {
				log(ctx, err, msg, keysAndValues...)
			}
		},
	}
}
