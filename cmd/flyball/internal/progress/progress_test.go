package progress

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStart(t *testing.T) {
	for _, tt := range []struct {
		name     string
		terminal bool
		takes    time.Duration
		want     string
	}{
		{"a moment", false, 900 * time.Millisecond, ""},
		{"a moment on a terminal", true, 900 * time.Millisecond, ""},
		{"some seconds", false, 5 * time.Second, "working: 1 s\n"},
		{"half a minute", false, 30 * time.Second, "working: 1 s\nworking: 11 s\nworking: 21 s\n"},
		{"some seconds on a terminal", true, 2500 * time.Millisecond,
			"\r\x1b[Kworking: 1 s\r\x1b[Kworking: 2 s\r\x1b[K"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				stop := start(&out, tt.terminal, Doing("working"))
				time.Sleep(tt.takes)
				stop()
				stop()
				time.Sleep(time.Minute)
				if out.String() != tt.want {
					t.Errorf("written %q, want %q", out.String(), tt.want)
				}
			})
		})
	}
}
