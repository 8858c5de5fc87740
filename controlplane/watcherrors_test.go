package controlplane

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	toolscache "k8s.io/client-go/tools/cache"
)

// TestWatchErrors: an error of a watch is logged as an error when it comes again, but not a watch that has
// ended early, as it does when the server stops.
func TestWatchErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want int
	}{"refused": {errors.New("refused"), 1}, "ended": {&toolscache.VeryShortWatchError{Name: "pods"}, 0}} {
		logged := 0
		w := &watchErrors{last: map[string]time.Time{}, logger: funcr.NewJSON(func(line string) {
			if !strings.Contains(line, `"level":`) { // of an error
				logged++
			}
		}, funcr.Options{Verbosity: 5})}
		r := toolscache.NewReflectorWithOptions(&toolscache.ListWatch{}, nil, nil, toolscache.ReflectorOptions{TypeDescription: "v1, Kind=Pod"})
		for range 2 {
			w.log(t.Context(), r, tt.err)
		}
		if logged != tt.want {
			t.Errorf("%s: %d errors are logged, want %d", name, logged, tt.want)
		}
	}
}
