// Package certwatchertest tells tests when a server uses another certificate.
package certwatchertest

import (
	"strings"
	"sync"

	"github.com/go-logr/logr/funcr"

	"flyball.dev/ctrl/log"
)

// uses are the log entries of the certificate watchers of the process, one for each certificate that they use.
var (
	uses  []string
	added = sync.NewCond(&sync.Mutex{})
)

// Observe makes Await work. TestMain calls it once, because it replaces the logger of the process.
func Observe() {
	log.SetLogger(funcr.New(func(_, entry string) {
		if strings.Contains(entry, "Updated current TLS certificate") {
			added.L.Lock()
			uses = append(uses, entry)
			added.L.Unlock()
			added.Broadcast()
		}
	}, funcr.Options{}))
}

// Await waits until a server has used n certificates of a file, one after another.
func Await(file string, n int) {
	added.L.Lock()
	defer added.L.Unlock()
	for strings.Count(strings.Join(uses, "\n"), file) < n {
		added.Wait()
	}
}
