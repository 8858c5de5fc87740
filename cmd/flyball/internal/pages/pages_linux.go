package pages

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// mapSmall makes the kernel map the program file in small pages. With huge pages in the page cache, the use of a single
// page would map 2 MiB.
func mapSmall() {
	for _, m := range programMappings() {
		syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, noHugePages)
	}
}

// noHugePages is MADV_NOHUGEPAGE, which package syscall lacks on some architectures.
const noHugePages = 15

// Release unmaps the pages of the program file. The kernel maps a page again from the page cache when it is used,
// together with 16 pages around it, so a start that runs much code leaves most of the file mapped. Release does nothing
// while a debugger is attached, because only the mapped pages contain the breakpoints.
func Release() {
	if isTraced() {
		return
	}
	for _, m := range programMappings() {
		// If the call fails, the pages stay mapped.
		syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED)
	}
}

// isTraced reports whether a debugger is attached to the process.
func isTraced() bool {
	status, err := os.ReadFile("/proc/self/status")
	return err == nil && tracerOf(string(status)) != "0"
}

// tracerOf returns the process ID of the tracer in a status file, or "0" if there is none.
func tracerOf(status string) string {
	for line := range strings.Lines(status) {
		if tracer, ok := strings.CutPrefix(line, "TracerPid:"); ok {
			return strings.TrimSpace(tracer)
		}
	}
	return "0"
}

// programMappings returns the mappings of the program file, or nil if they are unknown.
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

// mappingsOf returns the mappings of a file that are not writable and have not been written to, for instance by the
// dynamic linker, because unmapping would lose the written data. smaps is the content of an smaps file.
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
