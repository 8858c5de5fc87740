package images

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// canFindListeners says that this system tells which program listens on a port.
const canFindListeners = true

// listener returns an address by which this machine reaches a port, if a process of one of the process groups listens on it.
// Otherwise the error is ECONNREFUSED: a pod must not lead to the ports of other programs.
func listener(groups []int, port int32) (string, error) {
	var sockets []socket
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		found, err := listeningSockets(table, port)
		if err != nil && !os.IsNotExist(err) { // without IPv6 there is no second table
			return "", err
		}
		sockets = append(sockets, found...)
	}
	if len(sockets) > 0 {
		for _, pid := range processes(groups) {
			for _, s := range sockets {
				if s.local.IsValid() && holds(pid, s.inode) {
					return netip.AddrPortFrom(s.local, uint16(port)).String(), nil
				}
			}
		}
	}
	return "", &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// socket is a listening socket.
type socket struct {
	inode string
	local netip.Addr // an address by which a program on this machine reaches it
}

// listenState is the state of a listening socket in /proc/net/tcp.
const listenState = "0A"

// listeningSockets reads a table of sockets.
func listeningSockets(table string, port int32) (sockets []socket, err error) {
	f, err := os.Open(table)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	suffix := fmt.Sprintf(":%04X", port)
	for lines := bufio.NewScanner(f); lines.Scan(); err = lines.Err() {
		// sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ...
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != listenState || !strings.HasSuffix(fields[1], suffix) {
			continue
		}
		sockets = append(sockets, socket{fields[9], reachable(strings.TrimSuffix(fields[1], suffix))})
	}
	return sockets, err
}

// reachable returns an address by which a program on this machine reaches an address of /proc/net/tcp, which has words in the
// order of the machine: the address itself, or loopback in place of the unspecified address.
func reachable(text string) netip.Addr {
	words, err := hex.DecodeString(text)
	if err != nil {
		return netip.Addr{}
	}
	for i := 0; i+4 <= len(words); i += 4 {
		slices.Reverse(words[i : i+4])
	}
	a, ok := netip.AddrFromSlice(words)
	switch {
	case !ok:
		return netip.Addr{}
	case a == netip.IPv6Unspecified():
		return netip.IPv6Loopback()
	case a == netip.IPv4Unspecified():
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return a.Unmap()
}

// processes returns the processes in process groups.
func processes(groups []int) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid pgrp ..., where the name may have any characters
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 3 {
			continue
		}
		if group, err := strconv.Atoi(fields[2]); err == nil && slices.Contains(groups, group) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

// holds reports whether a process has a socket.
func holds(pid, inode string) bool {
	dir := filepath.Join("/proc", pid, "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false // it has ended, or belongs to another user
	}
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		link, err := os.Readlink(filepath.Join(dir, e.Name()))
		return err == nil && link == "socket:["+inode+"]"
	})
}
