package hostprocess

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// passListener listens at an address in the new network namespace of this helper, and passes the socket on to the parent. A
// socket belongs to the namespace in which it was made, so the parent accepts the connections of the namespace.
func passListener(address string) error {
	unix.CloseOnExec(handover)
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Is4() {
		return fmt.Errorf("%q is not an address with a port", address)
	}
	if err := setUpLoopback(); err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	}
	if err == nil {
		err = unix.Listen(fd, 128)
	}
	if err == nil {
		err = unix.Sendmsg(handover, []byte{0}, unix.UnixRights(fd), nil, 0)
	}
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	return nil
}

// setUpLoopback starts the loopback interface of a new network namespace.
func setUpLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, request); err != nil {
		return err
	}
	request.SetUint16(request.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// receiveListener receives the listener of a helper.
func receiveListener(from *os.File) (net.Listener, error) {
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(from.Fd()), make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("network namespace: the helper has passed on no listener: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("network namespace: the helper has passed on no listener: %w", err)
	}
	f := os.NewFile(uintptr(fds[0]), "listener")
	defer f.Close()
	return net.FileListener(f)
}
