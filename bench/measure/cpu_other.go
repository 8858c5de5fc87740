//go:build !unix

package measure

import "time"

// cpu is not known on this system.
func cpu() time.Duration { return 0 }
