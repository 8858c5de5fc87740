package pages

import (
	"os"
	"reflect"
	"testing"
)

func TestMappingsOf(t *testing.T) {
	const smaps = `00400000-024c3000 r-xp 00000000 fe:00 1310 /usr/bin/flyball up
Size:              33548 kB
Anonymous:             0 kB
024c3000-04d21000 r--p 020c3000 fe:00 1310 /usr/bin/flyball up
Anonymous:             0 kB
04d21000-04d22000 r--p 020c3000 fe:00 1310 /usr/bin/flyball up
Anonymous:             4 kB
04d22000-04df2000 rw-p 04921000 fe:00 1310 /usr/bin/flyball up
Anonymous:             0 kB
04df2000-06e44000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f4f3122a000-7f4f3132a000 r-xp 00000000 fe:00 99 /usr/lib/other
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0x24c3000}, {0x24c3000, 0x4d21000}}
	if got := mappingsOf(smaps, "/usr/bin/flyball up"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// TestRelease expects that the program goes on when its pages are unmapped.
func TestRelease(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	if len(mappingsOf(string(smaps), program)) == 0 {
		t.Errorf("no mapping of %s in:\n%s", program, smaps)
	}
	Release()
}

func TestTracerOf(t *testing.T) {
	for status, want := range map[string]string{
		"Name:\tflyball\nTracerPid:\t0\nUid:\t0\n":    "0",
		"Name:\tflyball\nTracerPid:\t4711\nUid:\t0\n": "4711",
		"": "0",
	} {
		if got := tracerOf(status); got != want {
			t.Errorf("the tracer in %q is %s, want %s", status, got, want)
		}
	}
}
