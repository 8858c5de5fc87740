//go:build !unix

package zoo

import (
	"testing"
	"time"
)

var began = time.Now()

// used returns the time since the begin.
func used(*testing.T) time.Duration { return time.Since(began) }
