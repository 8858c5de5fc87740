package pages

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"
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

// singly is set if the kernel maps no page around a page that is used.
var singly bool

// Singly reports whether the kernel maps single pages of the program file. Otherwise it maps up to 16 pages that are in the
// page cache when one of them is used, so a start that runs much code maps most of the file.
func Singly() bool { return singly }

// mapSingly makes the kernel map single pages. It registers the mappings with a userfaultfd for asynchronous
// write protection, which no page gets. The kernel omits the pages around a page in such a mapping, because a page that is
// not mapped may be protected. Linux before 6.7 does not have this, and a filter of system calls may end the process for the
// attempt; then nothing changes.
func mapSingly() {
	number, ok := userfaultfd[runtime.GOARCH]
	status, err := os.ReadFile("/proc/self/status")
	if !ok || err != nil || isFiltered(string(status)) {
		return
	}
	fd, _, errno := syscall.Syscall(number, syscall.O_CLOEXEC|userModeOnly, 0, 0)
	if errno != 0 {
		return
	}
	api := struct{ api, features, ioctls uint64 }{api: 0xaa, features: asyncWriteProtect}
	if _, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, apiRequest, uintptr(unsafe.Pointer(&api))); errno != 0 {
		syscall.Close(int(fd))
		return
	}
	mappings := programMappings()
	singly = len(mappings) > 0
	for _, m := range mappings {
		register := struct{ start, length, mode, ioctls uint64 }{uint64(m.start), uint64(m.end - m.start), writeProtectMode, 0}
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, registerRequest, uintptr(unsafe.Pointer(&register)))
		singly = singly && errno == 0
	}
	// The registration ends with the file descriptor, which stays open.
}

// userfaultfd is the number of the system call, which package syscall lacks. The constants are from
// linux/userfaultfd.h, on these architectures.
var userfaultfd = map[string]uintptr{"amd64": 323, "arm64": 282, "riscv64": 282, "loong64": 282}

const (
	userModeOnly      = 1          // UFFD_USER_MODE_ONLY
	asyncWriteProtect = 1 << 15    // UFFD_FEATURE_WP_ASYNC
	writeProtectMode  = 1 << 1     // UFFDIO_REGISTER_MODE_WP
	apiRequest        = 0xc018aa3f // UFFDIO_API
	registerRequest   = 0xc020aa00 // UFFDIO_REGISTER
)

// Release unmaps the pages of the program file. The kernel maps a page again from the page cache when it is used. Release
// does nothing while a debugger is attached, because only the mapped pages contain the breakpoints.
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
	return err == nil && valueOf(string(status), "TracerPid") != "0"
}

// isFiltered reports whether a seccomp filter decides about the system calls of a process with a status file.
func isFiltered(status string) bool { return valueOf(status, "Seccomp") != "0" }

// valueOf returns a value in a status file, or "0" if there is none.
func valueOf(status, name string) string {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
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
