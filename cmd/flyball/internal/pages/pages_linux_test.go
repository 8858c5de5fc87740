package pages

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"
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

// TestSingly expects that the kernel maps no pages around a page that is used, if it can.
func TestSingly(t *testing.T) {
	if !Singly() {
		t.Skip("the kernel maps the pages around a page")
	}
	largest := slices.MaxFunc(programMappings(), func(a, b mapping) int { return cmp.Compare(a.end-a.start, b.end-b.start) })
	const pageSize, around = 4096, 16
	Release()
	before := fileMemory(t)
	used, sum := 0, byte(0)
	for p := largest.start; p < largest.end; p += around * pageSize {
		sum += *(*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))) // the address is in the program file
		used++
	}
	// The program itself uses pages meanwhile.
	if grown, most := fileMemory(t)-before, 4*used*pageSize; grown > most {
		t.Errorf("%d pages were used (%d) and %d bytes mapped, want at most %d", used, sum, grown, most)
	}
}

// fileMemory returns how many bytes of files are mapped.
func fileMemory(t *testing.T) (size int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "RssFile:")
	if _, err := fmt.Sscanf(line, "%d kB", &size); err != nil {
		t.Fatal(err)
	}
	return size << 10
}

func TestValueOf(t *testing.T) {
	for status, want := range map[string]struct {
		tracer   string
		filtered bool
	}{
		"Name:\tflyball\nTracerPid:\t0\nUid:\t0\nSeccomp:\t0\nSeccomp_filters:\t1\n": {"0", false},
		"Name:\tflyball\nTracerPid:\t4711\nUid:\t0\nSeccomp:\t2\n":                   {"4711", true},
		"": {"0", false},
	} {
		if got := valueOf(status, "TracerPid"); got != want.tracer || isFiltered(status) != want.filtered {
			t.Errorf("the tracer in %q is %s, want %s; filtered: %v", status, got, want.tracer, isFiltered(status))
		}
	}
}
