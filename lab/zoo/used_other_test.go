//go:build !unix

package zoo

import (
	"testing"
	"time"
)

var began = time.Now()

// used returns the time since the begin.
func used(testing.TB) time.Duration { return time.Since(began) }
