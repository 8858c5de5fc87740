// Package reserve reserves TCP ports for servers that take the number of a port, not a listener, or
// that listen on a port more than once.
package reserve

import (
	"io"
	"net"
)

// Port reserves a free port of a host, which is a name or an IP address, until held is closed or unreachable. Servers
// of any program can listen on the port, one after another, and while none does, connections are refused. The system
// chooses the port for nobody else meanwhile. Systems other than Linux cannot reserve a port: there, Port only returns
// one that is free, and no port twice within some minutes.
func Port(host string) (port int, held io.Closer, err error) {
	address, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, nil, err
	}
	return bind(address)
}
