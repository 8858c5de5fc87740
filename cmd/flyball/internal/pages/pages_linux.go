package pages

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// mapSmall makes the kernel map the program file in pages. If the page cache has the file in huge
// pages, one that is used would map 2 MiB.
func mapSmall() {
	for _, m := range programMappings() {
		syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, noHugePages)
	}
}

// noHugePages is MADV_NOHUGEPAGE, which package syscall does not have on all architectures.
const noHugePages = 15

// Release unmaps the pages of the program file, which are mapped again from the page cache
// when they are used. The kernel maps 16 pages around each one that is used, so a start that runs
// through much code leaves most of the file mapped. It does nothing while the process is debugged: the
// breakpoints are in those pages only.
func Release() {
	if isTraced() {
		return
	}
	for _, m := range programMappings() {
		// What fails stays mapped.
		syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED)
	}
}

// isTraced reports whether a debugger is attached to the process.
func isTraced() bool {
	status, err := os.ReadFile("/proc/self/status")
	return err == nil && tracerOf(string(status)) != "0"
}

// tracerOf returns the process that traces one with a status file, "0" for none.
func tracerOf(status string) string {
	for line := range strings.Lines(status) {
		if tracer, ok := strings.CutPrefix(line, "TracerPid:"); ok {
			return strings.TrimSpace(tracer)
		}
	}
	return "0"
}

// programMappings returns the mappings of the program file, none if they are not known.
var programMappings = sync.OnceValue(func() []mapping {
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return nil
	}
	return mappingsOf(string(text), program)
})

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// mappingsOf returns the mappings of a file, according to an smaps file, that cannot be written to
// and have not been, such as by the dynamic linker: what was written would be lost.
func mappingsOf(smaps, file string) []mapping {
	var found []mapping
	var last mapping
	ours := false
	for line := range strings.Lines(smaps) {
		var permissions, offset, device string
		var inode, anonymous int
		var m mapping
		if n, _ := fmt.Sscanf(line, "%x-%x %s %s %s %d", &m.start, &m.end, &permissions, &offset, &device, &inode); n == 6 {
			last = m
			ours = strings.HasSuffix(strings.TrimSpace(line), " "+file) && !strings.Contains(permissions, "w")
		}
		if n, _ := fmt.Sscanf(line, "Anonymous: %d kB", &anonymous); n == 1 && ours && anonymous == 0 {
			found = append(found, last)
		}
	}
	return found
}
