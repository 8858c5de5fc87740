// Package always gives a console to each manager that has none, unless the API server is in the process. A program
// imports it for that alone:
//
//	import _ "flyball.dev/ctrl/console/always"
//
// The first of these managers writes the URL to console.DefaultURLFile, in the folder in which the program started, and each
// prints its own. flyball dev builds operators with this package.
package always

import (
	"path/filepath"
	"sync/atomic"

	"flyball.dev/ctrl/console"
	"flyball.dev/ctrl/internal/observe"
)

func init() {
	file, err := filepath.Abs(console.DefaultURLFile)
	if err != nil {
		file = console.DefaultURLFile
	}
	var written atomic.Bool
	observe.DefaultConsole = func() any {
		options := console.Options{}
		if written.CompareAndSwap(false, true) {
			options.URLFile = file
		}
		return console.New(options)
	}
}
