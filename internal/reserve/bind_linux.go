package reserve

import (
	"io"
	"net"
	"os"
	"syscall"
)

// bind binds a socket that never listens. SO_REUSEADDR, which servers set too, permits other sockets at its address as
// long as at most one of them listens.
func bind(address *net.TCPAddr) (int, io.Closer, error) {
	var local syscall.Sockaddr
	family, ip := syscall.AF_INET, address.AddrPort().Addr().Unmap()
	if ip.Is4() {
		local = &syscall.SockaddrInet4{Addr: ip.As4()}
	} else {
		family, local = syscall.AF_INET6, &syscall.SockaddrInet6{Addr: ip.As16()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, os.NewSyscallError("socket", err)
	}
	held := os.NewFile(uintptr(fd), "port of "+address.IP.String())
	port, err := bound(fd, local)
	if err != nil {
		held.Close()
		return 0, nil, err
	}
	return port, held, nil
}

// bound binds a socket to a free port, and returns the port.
func bound(fd int, local syscall.Sockaddr) (int, error) {
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(fd, local); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	local, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	if v4, ok := local.(*syscall.SockaddrInet4); ok {
		return v4.Port, nil
	}
	return local.(*syscall.SockaddrInet6).Port, nil
}
